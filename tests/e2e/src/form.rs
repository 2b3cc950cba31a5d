//! Two forms of a measurement: a short one, made with every change, and a long one, made by a
//! command of its own when there is time.

use std::env;

use anyhow::{Context, Result};
use rig::{
    Net8, Net9, Net10,
    RuntimeVersion::{self},
};

use crate::session::on_each;

/// Names the seconds of the long form.
const VARIABLE: &str = "E2E_SECONDS";
/// Names a version, to be the only one: "9.0".
const ONLY: &str = "E2E_NET";

/// How long a measurement is, and on what it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    long_seconds: Option<u64>,
    only: Option<RuntimeVersion>,
}

impl Form {
    /// The form that is asked for: the short one if nothing is.
    ///
    /// # Errors
    /// If the variables say nothing sensible.
    pub fn asked() -> Result<Self> {
        let long_seconds = match env::var(VARIABLE) {
            Ok(text) => Some(text.parse().with_context(|| format!("{VARIABLE} is {text}"))?),
            Err(_) => None,
        };
        let only = match env::var(ONLY) {
            Ok(text) => Some(
                RuntimeVersion::ALL
                    .into_iter()
                    .find(|version| version.major_minor() == text)
                    .with_context(|| format!("{ONLY} is {text}"))?,
            ),
            Err(_) => None,
        };
        Ok(Self { long_seconds, only })
    }

    /// Whether it is the long form.
    #[must_use]
    pub fn is_long(self) -> bool {
        self.long_seconds.is_some()
    }

    /// How long the program shall work, in seconds.
    #[must_use]
    pub fn seconds(self, short: u64) -> u64 {
        self.long_seconds.unwrap_or(short)
    }

    /// Does the same on the versions that the form wants: two in the short form, in the long one
    /// the single file as well.
    ///
    /// # Errors
    /// Those of all.
    pub fn on_versions(self, test: impl Fn(RuntimeVersion) -> Result<()>) -> Result<()> {
        self.on(if self.is_long() { &[Net8, Net9, Net10] } else { &[Net8, Net9] }, test)
    }

    /// Does the same on some versions.
    ///
    /// # Errors
    /// Those of all.
    pub fn on(
        self,
        versions: &[RuntimeVersion],
        test: impl Fn(RuntimeVersion) -> Result<()>,
    ) -> Result<()> {
        let is_wanted = |version: &&RuntimeVersion| self.only.is_none_or(|only| only == **version);
        on_each(versions.iter().filter(is_wanted).copied(), test)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn versions(form: Form) -> Vec<RuntimeVersion> {
        let seen = RefCell::new(Vec::new());
        form.on_versions(|version| {
            seen.borrow_mut().push(version);
            Ok(())
        })
        .unwrap();
        seen.into_inner()
    }

    #[test]
    fn the_long_form_is_longer_and_on_more_versions() {
        let short = Form { long_seconds: None, only: None };
        let long = Form { long_seconds: Some(20), only: None };
        assert_eq!((short.seconds(3), long.seconds(3)), (3, 20));
        assert_eq!(versions(short), [Net8, Net9]);
        assert_eq!(versions(long), [Net8, Net9, Net10]);
        assert_eq!(versions(Form { only: Some(Net9), ..long }), [Net9]);
    }

    #[test]
    fn errors_name_their_versions() {
        let form = Form { long_seconds: None, only: None };
        let error = form.on_versions(|_| anyhow::bail!("no")).unwrap_err().to_string();
        assert!(error.contains(".NET 8.0: no") && error.contains(".NET 9.0: no"), "{error}");
    }
}
