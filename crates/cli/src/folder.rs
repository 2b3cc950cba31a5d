//! The folder that profiles of a run go to.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use profile::service_part;

use crate::unfinished::Unfinished;

/// Where fresh folders are made, in the current one.
const PARENT: &str = "corprof-out";
/// Bytes that a profile of a program may have.
const PROFILE_BYTES: usize = 256 << 10;
const NEXT: &str = "name a folder you may write to with --out";

/// Makes a folder that somebody named, and checks that it can be written to.
pub fn given(path: &Path) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    refuse_file(path)
        .and_then(|()| Ok(fs::create_dir_all(path)?))
        .with_context(|| format!("can't make the output folder {shown}; {NEXT}"))?;
    // Gone again at once.
    Unfinished::create(&path.join("corprof"))
        .map(drop)
        .with_context(|| format!("can't write to the output folder {shown}; {NEXT}"))?;
    Ok(plain(fs::canonicalize(path).with_context(|| format!("{shown}"))?))
}

/// A canonical path as people write it: Windows puts `\\?\` before one, which .NET and others don't
/// take everywhere.
pub fn plain(path: PathBuf) -> PathBuf {
    let text = path.to_string_lossy();
    match text.strip_prefix(r"\\?\") {
        Some(plain) if !plain.starts_with("UNC") => PathBuf::from(plain),
        _ => path,
    }
}

/// Refuses a file where there is to be a folder; what is not there yet can become one.
pub fn refuse_file(path: &Path) -> anyhow::Result<()> {
    let is_file = fs::metadata(path).is_ok_and(|about| !about.is_dir());
    anyhow::ensure!(!is_file, "it is a file, and no folder");
    Ok(())
}

/// Makes a fresh folder `corprof-out/<name>-<time>`.
pub fn fresh(name: &str, now: SystemTime) -> anyhow::Result<PathBuf> {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let wanted = format!("{}-{}", service_part(name), stamp(seconds));
    let parent = Path::new(PARENT);
    fs::create_dir_all(parent)
        .with_context(|| format!("can't make the folder {PARENT}; {NEXT}"))?;
    // Another run may have begun in the same second.
    let names = std::iter::once(wanted.clone()).chain((2..1000).map(|n| format!("{wanted}-{n}")));
    for name in names {
        let path = parent.join(name);
        match fs::create_dir(&path) {
            Ok(()) => return given(&path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                let shown = path.display();
                return Err(error)
                    .with_context(|| format!("can't make the output folder {shown}; {NEXT}"));
            }
        }
    }
    anyhow::bail!("there are a thousand folders {PARENT}/{wanted}…; {NEXT}")
}

/// Removes a fresh folder that nothing was written to, and the one it is in if that was all.
pub fn remove_empty(folder: &Path) {
    // A folder with anything in it is not removed.
    if fs::remove_dir(folder).is_ok()
        && let Some(parent) = folder.parent()
    {
        let _ = fs::remove_dir(parent);
    }
}

/// A time as `20261129-101500` (UTC): names that sort.
fn stamp(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Civil date from days, counting years from March so that the leap day is the last
    // (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{:02}", second % 60)
}

/// Whether there is room for a profile in a folder, and it may be written.
///
/// # Errors
/// What the kernel says to a file of that size.
pub fn check(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".corprof-check-{}", std::process::id()));
    let written = File::create_new(&path).and_then(|mut file| file.write_all(&[0; PROFILE_BYTES]));
    let _gone = fs::remove_file(&path);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_probe_of_a_folder_follows_no_link() {
        let top = std::env::temp_dir().join(format!("corprof-given-{}", std::process::id()));
        fs::create_dir_all(top.join("out")).unwrap();
        let victim = top.join("victim");
        fs::write(&victim, "secret").unwrap();
        let link = top.join("out").join(format!(".corprof.{}", std::process::id()));
        std::os::unix::fs::symlink(&victim, link).unwrap();
        given(&top.join("out")).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"secret");
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn stamps_are_dates() {
        for (seconds, text) in [
            (0, "19700101-000000"),
            (951_782_399, "20000228-235959"),
            (951_782_400, "20000229-000000"),
            (1_796_000_000, "20261130-005320"),
            (4_107_542_400, "21000301-000000"),
        ] {
            assert_eq!(stamp(seconds), text);
        }
    }
}
