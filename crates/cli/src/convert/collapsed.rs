//! Collapsed stacks: a line for each, `root;caller;leaf 1234`, the value in nanoseconds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use profile::{FrameIndex, Profile};

use crate::value::Value;

/// The lines, sorted, so that equal profiles give equal files.
pub fn bytes(profile: &Profile, value: Value) -> Vec<u8> {
    let names: Vec<String> = profile.functions.iter().map(|f| word(profile.text(f.name))).collect();
    let name = |frame| {
        let function = profile.frames.get(FrameIndex::get(frame))?.function;
        names.get(function.get()).map(String::as_str)
    };
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for sample in &profile.samples {
        let ns = value.of(&sample.values);
        if ns == 0 {
            continue;
        }
        let mut frames: Vec<&str> =
            profile.stack(sample.stack).map(|frame| name(frame).unwrap_or("?")).collect();
        frames.reverse();
        let sum = sums.entry(frames.join(";")).or_default();
        *sum = sum.saturating_add(ns);
    }
    let mut text = String::new();
    for (stack, ns) in sums {
        let _ = writeln!(text, "{stack} {ns}");
    }
    text.into_bytes()
}

/// A name without what has a meaning in a line.
fn word(name: &str) -> String {
    let letter = |letter: char| match letter {
        ';' => ':',
        letter if letter.is_control() => ' ',
        letter => letter,
    };
    // A name that is nothing would be no frame.
    if name.is_empty() { "?".to_owned() } else { name.chars().map(letter).collect() }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn a_name_cannot_break_its_line() {
        assert_eq!(word("A.B(int, C<D>)"), "A.B(int, C<D>)");
        assert_eq!(word("a;b\nc"), "a:b c");
        assert_eq!(word(""), "?");
    }
}
