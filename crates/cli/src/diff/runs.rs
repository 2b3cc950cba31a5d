//! Runs: what files of one process are, whose periods are no repetitions of each other.

use std::collections::HashMap;

/// The runs of a side, numbered in the order of their first files.
#[derive(Debug, Default)]
pub struct Runs {
    known: HashMap<String, usize>,
    len: usize,
}

impl Runs {
    /// The number of the run that a file is of, which tells its process by a word that no other
    /// process has; a file that tells none is a run of its own.
    pub fn of(&mut self, process: &str) -> usize {
        if let Some(run) = self.known.get(process) {
            return *run;
        }
        let run = self.len;
        self.len += 1;
        if !process.is_empty() {
            self.known.insert(process.to_owned(), run);
        }
        run
    }

    /// Has what comes with this word be of that run, unless it is of one already.
    pub fn join(&mut self, process: &str, run: usize) {
        if !process.is_empty() {
            self.known.entry(process.to_owned()).or_insert(run);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_process_are_one_and_others_each_their_own() {
        let mut runs = Runs::default();
        let files = ["a", "b", "", "a", "", "b"];
        assert_eq!(files.map(|process| runs.of(process)), [0, 1, 2, 0, 3, 1]);
        assert_eq!(runs.len(), 4);
        runs.join("c", 1);
        runs.join("a", 1);
        assert_eq!(["a", "c", "d"].map(|process| runs.of(process)), [0, 1, 4]);
    }
}
