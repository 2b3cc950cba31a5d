//! The kinds of frames as words, and how a kind travels in a pprof file.
//!
//! pprof has no field for what a frame is. `Function.system_name` is the one free text that
//! `go tool pprof` keeps when it rewrites a file, and that it neither shows in its tables nor
//! touches while it differs from `name`. So it holds the kind and the raw name:
//! `[managed] Shop.OrderService+<LoadAsync>d__3.MoveNext`.

use model::FrameKind;

/// The kind's word in files and tables.
#[must_use]
pub const fn kind_name(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Managed => "managed",
        FrameKind::Native => "native",
        FrameKind::Runtime => "runtime",
        FrameKind::Synthetic => "synthetic",
    }
}

/// The kind of a word, `None` for any other.
#[must_use]
pub fn kind_from_name(name: &str) -> Option<FrameKind> {
    [FrameKind::Managed, FrameKind::Native, FrameKind::Runtime, FrameKind::Synthetic]
        .into_iter()
        .find(|kind| kind_name(*kind) == name)
}

/// `Function.system_name` for a kind and a raw name.
pub(crate) fn system_name(kind: Option<FrameKind>, raw_name: &str) -> String {
    match kind {
        Some(kind) => format!("[{}] {raw_name}", kind_name(kind)),
        None => raw_name.to_owned(),
    }
}

/// Kind and raw name of a `Function.system_name`; no kind in files that others wrote.
#[cfg(any(test, feature = "read"))]
pub(crate) fn split_system_name(text: &str) -> (Option<FrameKind>, &str) {
    let parts = text.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    match parts.and_then(|(word, raw)| Some((kind_from_name(word)?, raw))) {
        Some((kind, raw)) => (Some(kind), raw),
        None => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_survives_its_text() {
        let all = [FrameKind::Managed, FrameKind::Native, FrameKind::Runtime, FrameKind::Synthetic];
        for kind in all {
            for raw in ["", "A.B+<C>d__3.MoveNext", "[managed] x", "_ZN3fooEv"] {
                assert_eq!(split_system_name(&system_name(Some(kind), raw)), (Some(kind), raw));
            }
        }
    }

    #[test]
    fn names_of_others_have_no_kind() {
        for text in ["", "main.main", "[vdso]", "[unknown] x", "managed: x"] {
            assert_eq!(split_system_name(text), (None, text));
            assert_eq!(system_name(None, text), text);
        }
    }
}
