//! The installation of components: once, whole, by one process at a time, and repeatable.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::client;
use crate::component::Component;
use crate::layout::Layout;
use crate::lock::Lock;
use crate::progress::{self, Step};
use crate::unavailable::Unavailable;

/// So long a failed installation is believed, lest every test tries the download again.
const FAILURE_AGE_MAX: Duration = Duration::from_secs(15 * 60);

/// Whether failed installations are tried again at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Only after a while: for tests.
    Later,
    /// At once: a person asked for it.
    Now,
}

/// Installs what is missing of the components, in their order; gives one result for each.
pub(crate) fn ensure(
    layout: &Layout,
    components: &[&'static Component],
    retry: Retry,
) -> Result<Vec<std::result::Result<(), Unavailable>>> {
    let settled = |component: &Component| {
        is_installed(layout, component)
            || (retry == Retry::Later && recent_failure(layout, component).is_some())
    };
    if !components.iter().all(|component| settled(component)) {
        let _lock = Lock::take(&layout.root().join(".setup.lock"), "sets up the test rig")?;
        for component in components {
            // Another process may have done it while this one waited for the lock.
            if !settled(component) {
                install(layout, component)?;
            }
        }
    }
    Ok(components.iter().map(|component| outcome(layout, component)).collect())
}

fn is_installed(layout: &Layout, component: &Component) -> bool {
    let state = fs::read_to_string(layout.state(component.id, "installed"));
    state.is_ok_and(|key| key == component.key()) && layout.root().join(component.proof).exists()
}

fn recent_failure(layout: &Layout, component: &Component) -> Option<String> {
    let path = layout.state(component.id, "failed");
    let age = fs::metadata(&path).ok()?.modified().ok()?.elapsed().ok()?;
    if age > FAILURE_AGE_MAX { None } else { fs::read_to_string(&path).ok() }
}

fn outcome(layout: &Layout, component: &Component) -> std::result::Result<(), Unavailable> {
    if is_installed(layout, component) {
        return Ok(());
    }
    let reason = fs::read_to_string(layout.state(component.id, "failed"));
    let reason = reason.unwrap_or_else(|_| "it is not installed".to_owned());
    Err(Unavailable::new(
        component.title,
        format!("{}; `cargo xtask setup` tries again", reason.trim_end()),
    ))
}

/// Fails only if the rig's own folder cannot be written; a package that cannot be had is noted.
fn install(layout: &Layout, component: &Component) -> Result<()> {
    let installed = layout.state(component.id, "installed");
    let failed = layout.state(component.id, "failed");
    fs::create_dir_all(installed.parent().unwrap_or(layout.root()))
        .with_context(|| format!("cannot write to {:?}", layout.root()))?;
    for path in [&installed, &failed] {
        remove(path)?;
    }
    let step = Step::begin(component.title, "installing");
    let staging = layout.staging(component.id);
    let result = download_and_unpack(layout, component, &staging, &step);
    remove(&staging)?;
    match result {
        Ok(()) => {
            fs::write(&installed, component.key())?;
            step.done();
        }
        Err(error) => {
            progress::line(&format!("{} FAILED: {error:#}", component.title));
            fs::write(&failed, format!("{error:#}"))?;
        }
    }
    Ok(())
}

fn download_and_unpack(
    layout: &Layout,
    component: &Component,
    staging: &Path,
    step: &Step,
) -> Result<()> {
    remove(staging)?;
    let (download, unpacked) = (staging.join("download"), staging.join("unpacked"));
    fs::create_dir_all(&download)?;
    fs::create_dir_all(&unpacked)?;
    let archive = client::download(&component.package, &download, step)?;
    step.note("unpacking");
    component.unpack(layout, &archive, &unpacked)
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {path:?}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component;

    fn with_layout(name: &str, check: impl FnOnce(&Layout)) {
        let dir = std::env::temp_dir().join(format!("rig-{name}-{}", std::process::id()));
        check(&Layout::at(&dir));
        fs::remove_dir_all(&dir).unwrap();
    }

    fn pretend_installed(layout: &Layout, component: &Component) {
        let state = layout.state(component.id, "installed");
        let proof = layout.root().join(component.proof);
        for (path, content) in [(&state, component.key()), (&proof, String::new())] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    #[test]
    fn what_is_installed_is_left_alone() {
        with_layout("installed", |layout| {
            pretend_installed(layout, &component::ROSLYN);
            let results = ensure(layout, &[&component::ROSLYN], Retry::Now).unwrap();
            assert!(results[0].is_ok());
            assert!(!layout.root().join(".setup.lock").exists(), "nothing was to be done");
        });
    }

    #[test]
    fn an_installation_of_another_pin_or_with_a_lost_file_is_not_good() {
        with_layout("pin", |layout| {
            pretend_installed(layout, &component::ROSLYN);
            fs::write(layout.state("roslyn", "installed"), "another version").unwrap();
            assert!(!is_installed(layout, &component::ROSLYN));
            pretend_installed(layout, &component::MCS);
            fs::remove_file(layout.root().join(component::MCS.proof)).unwrap();
            assert!(!is_installed(layout, &component::MCS));
        });
    }

    #[test]
    fn a_recent_failure_keeps_its_reason() {
        with_layout("failure", |layout| {
            let failed = layout.state("roslyn", "failed");
            fs::create_dir_all(failed.parent().unwrap()).unwrap();
            fs::write(&failed, "npm was not found").unwrap();
            let results = ensure(layout, &[&component::ROSLYN], Retry::Later).unwrap();
            let unavailable = results[0].as_ref().unwrap_err().to_string();
            assert!(unavailable.contains("npm was not found"), "{unavailable}");
            assert!(unavailable.contains("cargo xtask setup"), "{unavailable}");
        });
    }
}
