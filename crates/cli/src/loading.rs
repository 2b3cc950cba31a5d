//! Reading the profiles that were named on the command line.

use std::path::PathBuf;

use crate::failure::{FAILED, Failure};
use crate::files::{self, Named};
use crate::filters::Filters;
use crate::loaded::{Loaded, Loader};
use crate::value::Value;
use crate::{error_of_file, note, nothing, warn};

/// Reads each file once, and gives all of them as one, not filtered yet; and how many could not be
/// read, which were named on standard error.
///
/// # Errors
/// If none could be read.
pub fn load(named: &[PathBuf], filters: &Filters) -> Result<(Loaded, usize), Failure> {
    let (loader, problems) = read_all(named, filters);
    if loader.is_empty() {
        return Err(Failure::new(FAILED, "no profile could be read, so there is nothing to show"));
    }
    Ok((loader.finish(), problems))
}

/// As [`load`], and leaves only what is looked at.
///
/// # Errors
/// Also if that is nothing, or has none of these values.
pub fn load_filtered(
    named: &[PathBuf],
    filters: &Filters,
    wanted: &[Value],
) -> Result<(Loaded, usize), Failure> {
    let (mut loaded, problems) = load(named, filters)?;
    let all = loaded.profile.total();
    filter(&mut loaded, filters)?;
    match nothing::left(&loaded, filters, &all, wanted) {
        Some(why) => Err(Failure::new(FAILED, why)),
        None => Ok((loaded, problems)),
    }
}

/// Leaves only what is looked at.
///
/// # Errors
/// If that is nothing.
pub fn filter(loaded: &mut Loaded, filters: &Filters) -> Result<(), Failure> {
    if !filters.is_empty() {
        let profile = &loaded.profile;
        if !profile.samples.iter().any(|sample| filters.keeps(profile, sample)) {
            return Err(Failure::new(FAILED, nothing::fits(loaded, filters)));
        }
        loaded.filter(filters);
    }
    Ok(())
}

fn read_all(named: &[PathBuf], filters: &Filters) -> (Loader, usize) {
    let mut loader = Loader::new(filters.clone());
    let mut known = Named::default();
    let mut problems = 0;
    let mut paths = Vec::new();
    for path in named {
        match files::expand(path) {
            Ok(files) => paths.extend(files.into_iter().filter(|path| known.is_new(path))),
            Err(error) => {
                problems += 1;
                error_of_file(&error);
            }
        }
    }
    let names = filters.need_names().then(|| files::request_names(&paths));
    for path in paths {
        match files::read(&path) {
            Ok(mut decoded) => {
                if let Some(error) = &decoded.report_error {
                    warn(format!("{}: {error}; the samples are fine", path.display()));
                }
                if let Some(names) = &names {
                    names.rename(&mut decoded.profile);
                }
                loader.add(&path, &decoded);
            }
            Err(error) => {
                problems += 1;
                error_of_file(&error);
            }
        }
    }
    match known.again() {
        0 => {}
        1 => note("1 file is named more than once; it counts once"),
        n => note(format!("{n} files are named more than once; each counts once")),
    }
    (loader, problems)
}
