//! The endpoint of each request, where several profiles have a part of it.
//!
//! A request that goes on when a period ends has the name that it had by then: `GET`, say, if it
//! was not routed yet. The next period knows better.

use std::collections::HashMap;

use crate::bounds::Limits;
use crate::profile::Profile;

/// An endpoint's name, and when the period begins whose profile says it, in nanoseconds since 1970.
pub type Told<'a> = (u64, &'a str);

/// Whether what one profile says counts more than what another does, whichever is read first: the
/// later one, and of two that begin at the same time the name that is later in the alphabet.
#[must_use]
pub fn supersedes(new: Told<'_>, known: Told<'_>) -> bool {
    !new.1.is_empty() && (known.1.is_empty() || new > known)
}

/// The endpoints of requests, by their local root spans.
#[derive(Debug, Default)]
pub struct RequestNames {
    texts: Vec<String>,
    numbers: HashMap<String, usize>,
    /// When it was told, and its place among the texts.
    by_root: HashMap<u64, (u64, usize)>,
}

impl RequestNames {
    /// Takes up what a profile says of its requests. Over the bound of a reader's spans requests
    /// keep the names that each profile has for them.
    pub fn learn(&mut self, profile: &Profile) {
        let begin_ns = profile.period.start_unix_ns;
        for span in &profile.spans {
            let (root, name) = (span.ids.local_root_span_id, profile.text(span.endpoint));
            let known = self.by_root.get(&root).map(|(told_ns, at)| (*told_ns, self.text(*at)));
            let has_room = known.is_some() || self.by_root.len() < Limits::READER.spans;
            if root != 0 && has_room && supersedes((begin_ns, name), known.unwrap_or_default()) {
                let number = self.number(name);
                self.by_root.insert(root, (begin_ns, number));
            }
        }
    }

    /// The endpoint of a request; `None` if nobody told it.
    #[must_use]
    pub fn get(&self, root: u64) -> Option<&str> {
        self.by_root.get(&root).map(|(_, at)| self.text(*at))
    }

    /// All of them: the local root span, and the name.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        self.by_root.iter().map(|(root, (_, at))| (*root, self.text(*at)))
    }

    /// Has a profile know its requests by these names.
    pub fn rename(&self, profile: &mut Profile) {
        let Profile { spans, strings, .. } = profile;
        for span in spans {
            let name = self.get(span.ids.local_root_span_id);
            if let Some(name) = name.and_then(|name| strings.intern(name)) {
                span.endpoint = name;
            }
        }
    }

    fn text(&self, at: usize) -> &str {
        self.texts.get(at).map_or("", String::as_str)
    }

    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.texts.len();
        self.texts.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_name_counts_and_none_never_does() {
        for (new, known, expected) in [
            ((2, "GET /a"), (1, "GET"), true),
            ((1, "GET"), (2, "GET /a"), false),
            ((2, ""), (1, "GET"), false),
            ((1, "GET"), (2, ""), true),
            ((1, "GET /a"), (1, "GET"), true),
            ((1, "GET"), (1, "GET /a"), false),
            ((0, "GET"), (0, ""), true),
            ((0, ""), (0, ""), false),
        ] {
            assert_eq!(supersedes(new, known), expected, "{new:?} {known:?}");
        }
    }
}
