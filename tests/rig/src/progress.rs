//! Progress lines on stderr: what is being done, how large it is, and when it is done.

use std::time::Instant;

/// Prints one line about the set-up.
pub(crate) fn line(text: &str) {
    eprintln!("rig: {text}");
}

/// One step of the set-up; it tells its duration when it is done.
pub(crate) struct Step {
    title: String,
    begin: Instant,
}

impl Step {
    /// Says what begins now.
    pub fn begin(title: &str, what: &str) -> Self {
        line(&format!("{title}: {what}"));
        Self { title: title.to_owned(), begin: Instant::now() }
    }

    /// Says what is going on within the step.
    pub fn note(&self, what: &str) {
        line(&format!("{}: {what}", self.title));
    }

    /// Says that the step is done.
    pub fn done(self) {
        line(&format!("{}: done in {:.1} s", self.title, self.begin.elapsed().as_secs_f64()));
    }
}
