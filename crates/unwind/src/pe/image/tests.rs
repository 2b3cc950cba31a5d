//! Images made by hand, whole and damaged.

use super::*;

/// An image's headers with two sections and the three directories.
fn headers() -> Vec<u8> {
    let mut bytes = vec![0; 0x400];
    let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
    put(0, b"MZ");
    put(0x3c, &0x80_u32.to_le_bytes());
    put(0x80, b"PE\0\0");
    put(0x84, &0x8664_u16.to_le_bytes());
    put(0x86, &2_u16.to_le_bytes());
    put(0x94, &240_u16.to_le_bytes());
    let optional = 0x98;
    put(optional, &0x20b_u16.to_le_bytes());
    put(optional + 56, &0x5000_u32.to_le_bytes());
    put(optional + 108, &16_u32.to_le_bytes());
    let directories =
        [(0, 0x3000_u32, 0x100_u32), (3, 0x4000, 24), (6, 0x2000, 28), (14, 0x2400, 72)];
    for (number, start, length) in directories {
        put(optional + 112 + number * 8, &start.to_le_bytes());
        put(optional + 116 + number * 8, &length.to_le_bytes());
    }
    let table = optional + 240;
    for (number, start, length, flags) in
        [(0, 0x2000_u32, 0x800_u32, 0x4000_0040_u32), (1, 0x1000, 0xfff, 0x6000_0020)]
    {
        put(table + number * 40 + 8, &length.to_le_bytes());
        put(table + number * 40 + 12, &start.to_le_bytes());
        put(table + number * 40 + 36, &flags.to_le_bytes());
    }
    bytes
}

#[test]
fn headers_are_read() {
    let read = Headers::parse(&headers()).expect("an image");
    assert_eq!(read.bytes, 0x5000);
    assert_eq!(read.code().first(), Some(&(0x1000..0x1fff)));
    assert_eq!(read.exports, 0x3000..0x3100);
    assert_eq!(read.functions, 0x4000..0x4018);
    assert_eq!(read.debug, 0x2000..0x201c);
    assert_eq!(read.clr, 0x2400..0x2448);
}

#[test]
fn what_is_no_image_is_none() {
    let whole = headers();
    for length in [0, 1, 0x3f, 0x80, 0x98, 0x120] {
        assert_eq!(Headers::parse(&whole[..length]), None, "{length}");
    }
    for (at, byte) in [(0, 0), (0x80, 0), (0x84, 0x4c), (0x98, 0), (0x3f, 0xff)] {
        let mut damaged = headers();
        damaged[at] = byte;
        assert_eq!(Headers::parse(&damaged), None, "{at:x}");
    }
}

#[test]
fn managed_images_are_known() {
    let header = |flags: u32, precompiled: u32| {
        let mut bytes = vec![0; CLR_BYTES];
        bytes[16..20].copy_from_slice(&flags.to_le_bytes());
        bytes[68..72].copy_from_slice(&precompiled.to_le_bytes());
        bytes
    };
    assert!(is_managed(&header(1, 0)) && is_managed(&header(4, 0x80)));
    // Mixed by a C++ compiler; and none of .NET's.
    assert!(!is_managed(&header(0, 0)) && !is_managed(&[]));
}

#[test]
fn the_pdbs_id_is_that_of_symbol_servers() {
    let mut debug = vec![0; 56];
    debug[12] = 16;
    debug[28 + 12] = 2;
    debug[28 + 16..28 + 20].copy_from_slice(&30_u32.to_le_bytes());
    debug[28 + 20..28 + 24].copy_from_slice(&0x2100_u32.to_le_bytes());
    assert_eq!(code_view(&debug), Some(0x2100..0x211e));
    assert_eq!(code_view(&debug[..28]), None);
    let mut view = b"RSDS".to_vec();
    view.extend([0x78, 0x56, 0x34, 0x12, 0xcd, 0xab, 0x01, 0xef, 1, 2, 3, 4, 5, 6, 7, 8]);
    view.extend(3_u32.to_le_bytes());
    view.extend(b"a.pdb\0");
    let expected =
        [0x12, 0x34, 0x56, 0x78, 0xab, 0xcd, 0xef, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 3];
    assert_eq!(pdb_id(&view).as_deref(), Some(&expected[..]));
    assert_eq!(pdb_id(&view[..20]), None);
    assert_eq!(pdb_id(b"NB10"), None);
}

#[test]
fn exports_have_names_and_those_of_others_are_left_out() {
    // At 0x3000: three names, of which the second is passed on to another module.
    let mut table = vec![0; 0x100];
    let mut put = |at: usize, what: &[u8]| table[at..at + what.len()].copy_from_slice(what);
    put(24, &3_u32.to_le_bytes());
    put(28, &0x3040_u32.to_le_bytes());
    put(32, &0x3050_u32.to_le_bytes());
    put(36, &0x3060_u32.to_le_bytes());
    for (n, function) in [0x1800_u32, 0x30a0, 0x1400].into_iter().enumerate() {
        put(0x40 + n * 4, &function.to_le_bytes());
    }
    for (n, name) in [0x3080_u32, 0x3088, 0x3090].into_iter().enumerate() {
        put(0x50 + n * 4, &name.to_le_bytes());
        put(0x60 + n * 2, &u16::try_from(n).expect("small").to_le_bytes());
    }
    put(0x80, b"Alpha\0");
    put(0x88, b"Beta\0");
    put(0x90, b"Gamma\0");
    let found = exports(&table, 0x3000, 100);
    let names: Vec<(u32, &[u8])> =
        found.iter().map(|export| (export.start, &table[export.name.clone()])).collect();
    assert_eq!(names, [(0x1400, &b"Gamma"[..]), (0x1800, &b"Alpha"[..])]);
    assert_eq!(exports(&table[..0x20], 0x3000, 100), []);
    assert_eq!(exports(&table, 0x3000, 1).len(), 1);
}
