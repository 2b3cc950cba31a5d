//! Source lines from a portable PDB: the sequence points of its methods (Portable PDB format
//! specification of dotnet/runtime; ECMA-335 II.24 for the container).
//!
//! Two tables and a heap of a format that has many more. Files may be damaged: everything is
//! looked up with a check, and a method that makes no sense has no lines.

use metadata::PdbId;

/// A metadata file begins with it: "BSJB".
const MAGIC: u32 = 0x424a_5342;
/// The tables, and how many kinds there can be.
const DOCUMENT: usize = 0x30;
const METHOD_DEBUG_INFORMATION: usize = 0x31;
const TABLES: usize = 64;
/// Bits of the heaps that have large indices.
const LARGE_GUIDS: u8 = 2;
const LARGE_BLOBS: u8 = 4;

/// A PDB that was read.
#[derive(Debug)]
pub struct Pdb {
    bytes: Vec<u8>,
    /// Which build it belongs to.
    pub id: PdbId,
    blobs: Part,
    documents: Table,
    methods: Table,
    /// Bytes of an index into the blob heap.
    blob_index: usize,
}

/// What is known of a place in a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a source file, by its path on the machine where it was compiled.
    Line(String, u32),
    /// Code that its compiler made of no line, or that the source says is to have none.
    Hidden,
    /// The PDB has nothing of the method.
    Unknown,
}

/// A part of the file.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    start: usize,
    end: usize,
}

/// Rows of one length.
#[derive(Clone, Copy, Debug, Default)]
struct Table {
    start: usize,
    rows: usize,
    row_bytes: usize,
}

/// A point where a line begins.
#[derive(Clone, Copy, Debug)]
struct Point {
    il: u32,
    document: u32,
    /// `None` if it is hidden.
    line: Option<u32>,
}

impl Pdb {
    /// Reads the tables of contents; `None` if it is no portable PDB, or a damaged one.
    pub fn read(bytes: Vec<u8>) -> Option<Self> {
        let whole = Reader { bytes: &bytes, at: 0 };
        let streams = streams(whole)?;
        let part = |name: &[u8]| streams.iter().find(|stream| stream.0 == name).map(|s| s.1);
        let (ids, tables, blobs) = (part(b"#Pdb")?, part(b"#~")?, part(b"#Blob")?);
        let mut pdb = whole.part(ids)?;
        let id = PdbId::from_bytes(pdb.take(20)?.try_into().ok()?);
        let mut head = whole.part(tables)?;
        head.take(6)?;
        let heaps = head.take(1)?.first().copied()?;
        head.take(1)?;
        let valid = head.u64()?;
        head.take(8)?;
        let mut rows = [0; TABLES];
        for (number, rows) in rows.iter_mut().enumerate() {
            if valid & (1 << number) != 0 {
                *rows = usize::try_from(head.u32()?).ok()?;
            }
        }
        // Of the tables before these two a PDB of its own has none.
        if valid & ((1 << DOCUMENT) - 1) != 0 {
            return None;
        }
        let size = |is_large: bool| if is_large { 4 } else { 2 };
        let (guid, blob) = (size(heaps & LARGE_GUIDS != 0), size(heaps & LARGE_BLOBS != 0));
        let document_index = size(rows[DOCUMENT] > 0xffff);
        let documents =
            Table { start: head.at, rows: rows[DOCUMENT], row_bytes: 2 * blob + 2 * guid };
        let start = documents.end()?;
        let row_bytes = document_index + blob;
        let methods = Table { start, rows: rows[METHOD_DEBUG_INFORMATION], row_bytes };
        (methods.end()? <= tables.end).then_some(())?;
        Some(Self { id, blobs, documents, methods, blob_index: blob, bytes })
    }

    /// The place of an IL instruction of the method with that row in the assembly's metadata.
    pub fn place(&self, method: u32, il: u32) -> Place {
        let points = self.points(method).unwrap_or_default();
        // They rise, as the format has only differences that are not negative.
        let next = points.partition_point(|point| point.il <= il);
        let Some(point) = next.checked_sub(1).and_then(|at| points.get(at)) else {
            return if points.is_empty() { Place::Unknown } else { Place::Hidden };
        };
        let Some(line) = point.line else { return Place::Hidden };
        match self.document(point.document) {
            Some(file) => Place::Line(file, line),
            None => Place::Unknown,
        }
    }

    /// A method's sequence points; of a damaged list those before the damage.
    fn points(&self, method: u32) -> Option<Vec<Point>> {
        let mut row = self.row(self.methods, method)?;
        let mut document = row.index(self.methods.row_bytes - self.blob_index)?;
        let blob = row.index(self.blob_index)?;
        if blob == 0 {
            return None;
        }
        let mut list = self.blob(blob)?;
        let _local_variables = list.compressed()?;
        if document == 0 {
            document = list.compressed()?;
        }
        let mut points = Vec::new();
        let mut last: Option<(u32, u32)> = None;
        while !list.is_empty() {
            let Some(point) = point(&mut list, points.last(), &mut document, &mut last) else {
                break;
            };
            points.extend(point);
        }
        Some(points)
    }

    /// A source file's path: parts with a separator between them, each a blob of its own.
    fn document(&self, number: u32) -> Option<String> {
        let name = self.row(self.documents, number)?.index(self.blob_index)?;
        let mut name = self.blob(name)?;
        let separator = match name.take(1)? {
            [0] => "",
            other => str::from_utf8(other).ok()?,
        };
        let mut parts = Vec::new();
        while !name.is_empty() {
            let part = match name.compressed()? {
                0 => String::new(),
                blob => String::from_utf8_lossy(self.blob(blob)?.rest()).into_owned(),
            };
            parts.push(part);
        }
        Some(parts.join(separator))
    }

    /// A row by its number, which begins with 1.
    fn row(&self, table: Table, number: u32) -> Option<Reader<'_>> {
        let position = usize::try_from(number).ok()?.checked_sub(1)?;
        if position >= table.rows {
            return None;
        }
        let start = table.start.checked_add(position.checked_mul(table.row_bytes)?)?;
        let end = start.checked_add(table.row_bytes)?;
        Reader { bytes: &self.bytes, at: 0 }.part(Part { start, end })
    }

    fn blob(&self, offset: u32) -> Option<Reader<'_>> {
        let heap = Reader { bytes: &self.bytes, at: 0 }.part(self.blobs)?;
        let at = heap.at.checked_add(usize::try_from(offset).ok()?)?;
        let mut blob = Reader { at, ..heap };
        let length = usize::try_from(blob.compressed()?).ok()?;
        Some(Reader { bytes: blob.take(length)?, at: 0 })
    }
}

impl Table {
    fn end(self) -> Option<usize> {
        self.start.checked_add(self.rows.checked_mul(self.row_bytes)?)
    }
}

/// The names and places of a metadata file's streams.
fn streams<'a>(mut file: Reader<'a>) -> Option<Vec<(&'a [u8], Part)>> {
    if file.u32()? != MAGIC {
        return None;
    }
    file.take(8)?;
    let version = usize::try_from(file.u32()?).ok()?;
    file.take(version)?;
    file.take(2)?;
    let count = file.index(2)?;
    let mut streams = Vec::new();
    for _ in 0..count {
        let start = usize::try_from(file.u32()?).ok()?;
        let end = start.checked_add(usize::try_from(file.u32()?).ok()?)?;
        let length = file.rest().iter().position(|byte| *byte == 0)?;
        let name = file.take(length)?;
        // It ends with one zero or more, up to a multiple of four.
        file.take(4 - length % 4)?;
        streams.push((name, Part { start, end }));
    }
    Some(streams)
}

/// The next point of a list: `Some(None)` if it was only said that another file follows. `last` is
/// line and column of the last point that was not hidden.
fn point(
    list: &mut Reader<'_>,
    before: Option<&Point>,
    document: &mut u32,
    last: &mut Option<(u32, u32)>,
) -> Option<Option<Point>> {
    let delta = list.compressed()?;
    if delta == 0 && before.is_some() {
        *document = list.compressed()?;
        return Some(None);
    }
    let il = before.map_or(0, |point| point.il).checked_add(delta)?;
    let lines = list.compressed()?;
    let columns = if lines == 0 { i64::from(list.compressed()?) } else { list.signed()? };
    if lines == 0 && columns == 0 {
        return Some(Some(Point { il, document: *document, line: None }));
    }
    let (line, column) = match *last {
        None => (list.compressed()?, list.compressed()?),
        Some((line, column)) => {
            let line = u32::try_from(i64::from(line) + list.signed()?).ok()?;
            (line, u32::try_from(i64::from(column) + list.signed()?).ok()?)
        }
    };
    *last = Some((line, column));
    Some(Some(Point { il, document: *document, line: Some(line) }))
}

/// Reads on from a place.
#[derive(Clone, Copy, Debug)]
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn part(self, part: Part) -> Option<Self> {
        (part.start <= part.end).then_some(())?;
        Some(Self { bytes: self.bytes.get(..part.end)?, at: part.start })
    }

    fn rest(self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn is_empty(self) -> bool {
        self.rest().is_empty()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A number of two or four bytes.
    fn index(&mut self, bytes: usize) -> Option<u32> {
        if bytes == 4 {
            return self.u32();
        }
        Some(u32::from(u16::from_le_bytes(self.take(2)?.try_into().ok()?)))
    }

    /// A compressed number (ECMA-335 II.23.2).
    fn compressed(&mut self) -> Option<u32> {
        self.compressed_with_length().map(|(number, _)| number)
    }

    /// A compressed number with a sign: it is rotated, the sign being its lowest bit.
    fn signed(&mut self) -> Option<i64> {
        let (number, bits) = self.compressed_with_length()?;
        let half = i64::from(number >> 1);
        Some(if number & 1 == 0 { half } else { half - (1 << (bits - 1)) })
    }

    /// The number, and how many bits it has.
    fn compressed_with_length(&mut self) -> Option<(u32, u32)> {
        let first = u32::from(*self.take(1)?.first()?);
        let (head, more, bits) = match first {
            0..0x80 => (first, 0, 7),
            0x80..0xc0 => (first & 0x3f, 1, 14),
            0xc0..0xe0 => (first & 0x1f, 3, 29),
            _ => return None,
        };
        let rest = self.take(more)?;
        Some((rest.iter().fold(head, |number, byte| number << 8 | u32::from(*byte)), bits))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A PDB of three methods: one in two files with a hidden point, one without points, and one
    /// whose list is damaged.
    pub(crate) fn pdb() -> Vec<u8> {
        let mut blobs = vec![0];
        let mut blob = |bytes: &[u8]| {
            let at = u16::try_from(blobs.len()).unwrap();
            blobs.push(u8::try_from(bytes.len()).unwrap());
            blobs.extend_from_slice(bytes);
            at
        };
        let (src, a, b) = (blob(b"src"), blob(b"a.cs"), blob("ö.cs".as_bytes()));
        let path = |file: u16| [b'/', u8::try_from(src).unwrap(), u8::try_from(file).unwrap()];
        let names = [blob(&path(a)), blob(&path(b))];
        // Signed numbers of seven bits: 2 is 4, -3 is 0x7b.
        let points = blob(&[
            0, 1, // no local variables; the first file
            3, 0, 5, 10, 1, // IL 3: line 10, column 1 to 6
            4, 0, 0, // IL 7: hidden
            5, 1, 4, 4, 0, // IL 12: line 12
            0, 2, // the other file
            0x80, 0x81, 0, 9, 0x7b, 0, // IL 141: line 9
        ]);
        let damaged = blob(&[0, 0, 0, 5, 33, 1, 6, 0, 5, 0xff]);
        let mut tables = vec![0, 0, 0, 0, 2, 0, 0, 1];
        tables.extend((3_u64 << DOCUMENT).to_le_bytes());
        tables.extend([0; 8]);
        tables.extend([2_u32, 3].map(u32::to_le_bytes).as_flattened());
        for name in names {
            tables.extend([name, 0, 0, 0].map(u16::to_le_bytes).as_flattened());
        }
        for row in [[0, points], [0, 0], [1, damaged]] {
            tables.extend(row.map(u16::to_le_bytes).as_flattened());
        }
        let streams = [("#Pdb", (0..32).collect()), ("#~", tables), ("#Blob", blobs)];
        let mut file = [&b"BSJB\x01\0\x01\0\0\0\0\0\x04\0\0\0v1\0\0\0\0\x03\0"[..]].concat();
        let head = file.len() + (8 + 8) + (8 + 4) + (8 + 8);
        let mut at = head;
        for (name, bytes) in &streams {
            let length = u32::try_from(bytes.len()).unwrap();
            file.extend([u32::try_from(at).unwrap(), length].map(u32::to_le_bytes).as_flattened());
            file.extend(name.as_bytes());
            file.resize(file.len() + 4 - name.len() % 4, 0);
            at += bytes.len();
        }
        assert_eq!(file.len(), head);
        streams.iter().for_each(|(_, bytes)| file.extend(bytes));
        file
    }

    fn line(file: &str, line: u32) -> Place {
        Place::Line(file.to_owned(), line)
    }

    #[test]
    fn lines_files_and_hidden_points() {
        let pdb = Pdb::read(pdb()).unwrap();
        assert_eq!(pdb.id.stamp, u32::from_le_bytes([16, 17, 18, 19]));
        for (il, place) in [
            (0, Place::Hidden),
            (3, line("src/a.cs", 10)),
            (6, line("src/a.cs", 10)),
            (7, Place::Hidden),
            (11, Place::Hidden),
            (12, line("src/a.cs", 12)),
            (140, line("src/a.cs", 12)),
            (141, line("src/ö.cs", 9)),
            (u32::MAX, line("src/ö.cs", 9)),
        ] {
            assert_eq!(pdb.place(1, il), place, "{il}");
        }
        for method in [0, 2, 4, u32::MAX] {
            assert_eq!(pdb.place(method, 5), Place::Unknown, "{method}");
        }
    }

    #[test]
    fn a_damaged_list_is_good_up_to_the_damage() {
        assert_eq!(Pdb::read(pdb()).unwrap().place(3, 1000), line("src/a.cs", 33));
    }

    #[test]
    fn damage_never_panics() {
        let whole = pdb();
        let look = |bytes: &[u8]| {
            let Some(pdb) = Pdb::read(bytes.to_vec()) else { return };
            for (method, il) in [(1, 0), (1, 141), (2, 5), (3, 9)] {
                let _any = pdb.place(method, il);
            }
        };
        for length in 0..whole.len() {
            look(&whole[..length]);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                look(&damaged);
            }
        }
        assert!(Pdb::read(b"Microsoft C/C++ MSF 7.00".to_vec()).is_none());
    }

    #[test]
    fn numbers_with_a_sign() {
        // The examples of ECMA-335 II.23.2.
        for (bytes, number) in [
            (&[0x06][..], 3),
            (&[0x7b], -3),
            (&[0x80, 0x80], 64),
            (&[0x01], -64),
            (&[0xc0, 0, 0x40, 0], 8192),
            (&[0x80, 0x01], -8192),
            (&[0xdf, 0xff, 0xff, 0xfe], 268_435_455),
            (&[0xc0, 0, 0, 0x01], -268_435_456),
        ] {
            assert_eq!(Reader { bytes, at: 0 }.signed(), Some(number), "{bytes:?}");
        }
    }
}
