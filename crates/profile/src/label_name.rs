//! Names of labels in files: ours, and how the program's own keep out of their way.

use std::borrow::Cow;

use crate::pprof::{
    LABEL_ENDPOINT, LABEL_LOCAL_ROOT_SPAN_ID, LABEL_SPAN_ID, LABEL_STATE, LABEL_THREAD_ID,
    LABEL_THREAD_NAME, LABEL_TRACE_ID,
};

/// Names with a meaning of ours.
const OWN: [&str; 7] = [
    LABEL_THREAD_ID,
    LABEL_THREAD_NAME,
    LABEL_STATE,
    LABEL_TRACE_ID,
    LABEL_SPAN_ID,
    LABEL_LOCAL_ROOT_SPAN_ID,
    LABEL_ENDPOINT,
];
/// What a program's label has before its name in a file if its name is one of ours.
const PREFIX: &str = "label.";

/// The name in a file of a label that the program gave.
pub(crate) fn name_in_file(name: &str) -> Cow<'_, str> {
    // With any number of prefixes: what a program named `label.state` must not become `state`.
    if is_own_with_prefixes(name) { format!("{PREFIX}{name}").into() } else { name.into() }
}

/// The name that the program gave, from that in a file.
#[cfg(any(test, feature = "read"))]
pub(crate) fn name_from_file(name: &str) -> &str {
    let rest = name.strip_prefix(PREFIX).filter(|rest| is_own_with_prefixes(rest));
    rest.unwrap_or(name)
}

fn is_own_with_prefixes(mut name: &str) -> bool {
    while let Some(rest) = name.strip_prefix(PREFIX) {
        name = rest;
    }
    OWN.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_never_are_ours() {
        for (name, in_file) in [
            ("tenant", "tenant"),
            ("state", "label.state"),
            ("label.state", "label.label.state"),
            ("label.tenant", "label.tenant"),
            ("trace id", "label.trace id"),
        ] {
            assert_eq!(name_in_file(name), in_file);
            assert_eq!(name_from_file(in_file), name);
            assert!(!OWN.contains(&in_file));
        }
    }
}
