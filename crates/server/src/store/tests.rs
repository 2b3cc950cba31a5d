//! What was put in is there, whatever happened then.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::file_at::FileExt as _;
use super::*;

const KEPT: Retention = Retention { seconds: 3600, bytes: 1 << 30 };

/// A folder of its own, deleted when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("corprof-store-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn open(&self) -> Store {
        Store::open(&self.0, KEPT).unwrap()
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number:012}.seg"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn meta(number: u64) -> Meta {
    Meta {
        service: format!("shop {number}"),
        version: "1.0".into(),
        instance: "größe".into(),
        labels: vec![("zone".into(), "b".into()), ("service".into(), String::new())],
        begin_us: 1_000_000 * number,
        duration_us: 60_000_000,
        received: 100 + number,
        origin: format!("file {number}"),
    }
}

fn profile(number: u64) -> Vec<u8> {
    vec![number as u8; 1000 + number as usize]
}

fn put(store: &mut Store, number: u64, now: u64) {
    store.put(&[(&meta(number), &profile(number))], now).unwrap();
}

fn check(store: &Store, numbers: impl IntoIterator<Item = u64>) {
    let expected: Vec<u64> = numbers.into_iter().collect();
    let entries = store.entries();
    assert_eq!(entries.len(), expected.len());
    for (entry, number) in entries.iter().zip(expected) {
        assert_eq!(entry.meta, meta(number));
        assert_eq!(store.read(entry.place).unwrap(), profile(number));
    }
}

#[test]
fn what_was_put_in_is_there_after_a_start() {
    let folder = Folder::new();
    let mut store = folder.open();
    for number in 0..5 {
        put(&mut store, number, 100 + number);
    }
    check(&store, 0..5);
    assert!(Store::open(&folder.0, KEPT).is_err(), "two processes have it");
    drop(store);
    let mut store = folder.open();
    check(&store, 0..5);
    // An hour later another segment is begun.
    put(&mut store, 5, 100 + 4_000);
    assert!(folder.segment(2).exists());
    drop(store);
    check(&folder.open(), 0..6);
}

/// What was sent in one piece is there as a whole, or not at all.
#[test]
fn several_go_in_together_or_none_does() {
    let folder = Folder::new();
    let mut store = folder.open();
    put(&mut store, 0, 100);
    let (one, two) = (profile(1), profile(2));
    let too_large = vec![0; record::LENGTH_MAX as usize + 1];
    let refused = store.put(&[(&meta(1), &one), (&meta(2), &too_large)], 100).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    check(&store, [0]);
    store.put(&[(&meta(1), &one), (&meta(2), &two)], 100).unwrap();
    check(&store, 0..3);
    drop(store);
    check(&folder.open(), 0..3);
}

#[test]
fn a_record_that_is_cut_off_anywhere_is_no_more() {
    let folder = Folder::new();
    let mut store = folder.open();
    (0..2).for_each(|number| put(&mut store, number, 100));
    let whole = store.numbers().bytes;
    put(&mut store, 2, 100);
    let all = fs::read(folder.segment(1)).unwrap();
    drop(store);
    let last = all.len() as u64 - 1;
    for length in (whole..last).step_by(7).chain([last]) {
        fs::write(folder.segment(1), &all[..length as usize]).unwrap();
        let mut store = folder.open();
        check(&store, 0..2);
        assert_eq!(store.numbers().cut, length - whole);
        assert_eq!(fs::metadata(folder.segment(1)).unwrap().len(), whole);
        if length == last {
            put(&mut store, 2, 100);
            check(&store, 0..3);
        }
    }
}

#[test]
fn damage_costs_the_record_that_has_it() {
    let folder = Folder::new();
    let mut store = folder.open();
    (0..3).for_each(|number| put(&mut store, number, 100));
    let (first, second) = (store.entries()[0].place, store.entries()[1].place);
    let file = fs::File::options().write(true).open(folder.segment(1)).unwrap();
    file.write_all_at(b"x", second.offset + 500).unwrap();
    let error = store.read(second).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(store.read(first).unwrap(), profile(0));
    drop(store);
    let store = folder.open();
    check(&store, [0, 2]);
    assert_eq!((store.numbers().damaged, store.numbers().cut), (1, 0));
    drop(store);
    // Also where its length is damaged, or how it begins.
    for at in [0, 4, 7] {
        file.write_all_at(&[0xff], second.offset + at).unwrap();
        let store = folder.open();
        check(&store, [0, 2]);
        assert_eq!((store.numbers().damaged, store.numbers().cut), (1, 0));
    }
}

#[test]
fn the_old_and_the_too_much_is_deleted() {
    let folder = Folder::new();
    let mut store = folder.open();
    for hour in 0..4 {
        put(&mut store, hour, 10_000 * hour + 100);
    }
    assert_eq!(store.entries().len(), 4);
    // Received at 100 to 103 seconds: all sealed segments are old; the last is being written.
    assert_eq!(store.expire(100_000).unwrap(), 3);
    check(&store, [3]);
    assert!(!folder.segment(1).exists() && folder.segment(4).exists());
    assert_eq!(store.numbers().deleted, 3);
    drop(store);
    let small = Retention { seconds: u64::MAX, bytes: 3_000 };
    let mut store = Store::open(&folder.0, small).unwrap();
    put(&mut store, 4, 50_000);
    put(&mut store, 5, 60_000);
    let reader = store.reader(store.entries()[0].place).unwrap();
    assert_eq!(store.expire(60_000).unwrap(), 1);
    check(&store, [4, 5]);
    // Who had begun to read can go on.
    assert_eq!(reader.read().unwrap(), profile(3));
}

/// Who sends it must not be told that it is kept.
#[test]
fn nothing_is_taken_once_the_folder_is_gone() {
    let folder = Folder::new();
    let mut store = folder.open();
    put(&mut store, 1, 100);
    fs::remove_dir_all(&folder.0).unwrap();
    let refused = store.put(&[(&meta(2), b"two")], 100).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::NotFound);
    assert_eq!(store.entries().len(), 1, "the store is as before");
}

/// Many small profiles with much known of each need more memory than disk.
#[test]
fn what_is_known_has_a_bound_too() {
    let folder = Folder::new();
    let mut store = folder.open();
    for hour in 0..4 {
        put(&mut store, hour, 10_000 * hour + 100);
    }
    let one = meta(0).size();
    assert!(one > 150 && one < 500, "{one}");
    assert_eq!(store.too_much(100, u64::MAX), []);
    assert_eq!(store.too_much(100, 4 * one), []);
    assert_eq!(store.too_much(100, 4 * one - 1), [1]);
    assert_eq!(store.too_much(100, 0), [1, 2, 3], "the last is being written");
    // Before it is too much, and not some time later.
    store.known_max = 4 * one;
    assert_eq!(store.make_room([], 100).unwrap(), 0);
    put(&mut store, 4, 100);
    check(&store, 1..5);
    assert_eq!(store.known, 4 * one);
    store.known_max = 3 * one;
    assert_eq!(store.make_room([&meta(5)], 100).unwrap(), 2);
    check(&store, 3..5);
    drop(store);
    assert_eq!(folder.open().known, 2 * one, "also after a start");
}

/// While the disk writes, the store answers; what is written is not in it before it is taken up.
#[test]
fn what_is_being_written_holds_nobody_up() {
    let folder = Folder::new();
    let mut store = folder.open();
    put(&mut store, 0, 100);
    let written = store.begin(100).unwrap().write(&[(&meta(1), &profile(1))]).unwrap();
    check(&store, [0]);
    assert_eq!(store.expire(u64::MAX).unwrap(), 0, "the last one stays");
    store.commit(written);
    check(&store, 0..2);
    drop(store);
    check(&folder.open(), 0..2);
}

/// Also after a start, and until it is deleted.
#[test]
fn what_is_there_is_known() {
    let folder = Folder::new();
    let is_new = |store: &Store, meta: &Meta| store.new_of([meta]) == [true];
    let mut store = folder.open();
    assert!(is_new(&store, &meta(1)));
    // Also among these alone.
    let unknown = Meta { origin: String::new(), ..meta(1) };
    let all = [&meta(1), &meta(2), &meta(1), &unknown, &unknown];
    assert_eq!(store.new_of(all), [true, true, false, true, true]);
    put(&mut store, 1, 100);
    let other = |service: &str, origin: &str| Meta {
        service: service.into(),
        origin: origin.into(),
        ..Meta::default()
    };
    let check = |store: &Store| {
        // Whatever else is told of it, and when it comes.
        assert!(!is_new(store, &other("shop 1", "file 1")));
        assert!(is_new(store, &other("shop 2", "file 1")));
        assert!(is_new(store, &other("shop 1", "file 2")));
        // Who does not say what it is of is always another.
        assert!(is_new(store, &other("shop 1", "")));
    };
    check(&store);
    drop(store);
    let mut store = folder.open();
    check(&store);
    // A segment takes an hour; then the first is old.
    let later = 100 + 2 * SEGMENT_SECONDS + KEPT.seconds;
    put(&mut store, 2, later);
    assert_eq!(store.expire(later).unwrap(), 1);
    assert!(is_new(&store, &meta(1)) && !is_new(&store, &meta(2)));
}
