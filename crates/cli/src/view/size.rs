//! How much memory columns take, nearly: enough to say when there is too much.

use super::columns::{Columns, Function, Place, Request, Source};

/// Bytes of a row and of a moment in all their columns.
const ROW: usize = 7 * size_of::<u32>() + 2 + 4 * size_of::<u64>();
const MOMENT: usize = size_of::<u64>() + 2 * size_of::<u32>();
/// Bytes of a node of the tree: itself, its place by parent and function, a mark.
const NODE: usize = 40;
/// What a hash table or the allocator needs for an entry, besides what is in it.
const ENTRY: usize = 16;

/// The bytes of texts and of what has some, counted once: for each list how much of it is, too.
#[derive(Debug, Default)]
pub struct Counted {
    functions: usize,
    places: usize,
    labels: usize,
    names: [usize; 3],
    sources: usize,
    bytes: usize,
}

impl Counted {
    /// Counts what was added.
    pub fn follow(&mut self, columns: &Columns) {
        let names = [&columns.modules, &columns.threads, &columns.endpoints];
        for (names, seen) in names.into_iter().zip(&mut self.names) {
            self.bytes += new(&names.list, seen, |name| 2 * held(name));
        }
        self.bytes += new(&columns.functions, &mut self.functions, |function| {
            size_of::<Function>() + 2 * held(&function.name)
        });
        self.bytes += new(&columns.labels.list, &mut self.labels, |labels| {
            labels.iter().map(|(name, value)| 2 * (held(name) + held(value))).sum()
        });
        self.bytes += new(&columns.places.list, &mut self.places, place);
        self.bytes += new(&columns.sources, &mut self.sources, source);
    }

    /// Bytes of all that grows with what is added.
    pub fn bytes(&self, columns: &Columns) -> usize {
        columns.rows.len() * ROW
            + columns.moments.row.len() * MOMENT
            + columns.tree.nodes.len() * NODE
            + columns.requests.len() * (size_of::<Request>() + ENTRY)
            + self.bytes
    }
}

/// The bytes of what a list has more than was seen.
fn new<T>(list: &[T], seen: &mut usize, bytes: impl Fn(&T) -> usize) -> usize {
    let more = list.get(*seen..).unwrap_or_default();
    *seen = list.len();
    more.iter().map(bytes).sum()
}

fn held(text: &str) -> usize {
    size_of::<String>() + text.len() + ENTRY
}

/// Twice: in its list, and as the key by which it is found.
fn place(place: &Place) -> usize {
    let texts = [&place.module, &place.build_id, &place.raw_name, &place.file];
    2 * (size_of::<Place>() + texts.map(|text| text.len()).iter().sum::<usize>() + ENTRY)
}

fn source(source: &Source) -> usize {
    let texts = [&source.name, &source.service, &source.version, &source.instance, &source.process];
    let texts: usize = texts.map(|text| text.len()).iter().sum();
    size_of::<Source>() + texts + size_of_val(source.ended.as_slice())
}
