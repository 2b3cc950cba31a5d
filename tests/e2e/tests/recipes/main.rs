//! The recipes: what they say is what `corprof env` prints, and done as they say, as far as that
//! goes without a container engine and without systemd, a service is profiled.

mod docker;
mod dockerfile;
mod kubernetes;
mod manifest;
mod sandbox;
mod service;
mod systemd;
mod unit;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::{built, hook};

use crate::service::Variables;

/// The text of a recipe.
///
/// # Errors
/// If there is none.
fn recipe(name: &str) -> Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let path = root.join(name);
    fs::read_to_string(&path).with_context(|| format!("{path:?}"))
}

/// What `corprof env` prints in that form.
///
/// # Errors
/// If it fails.
fn env(form: &str, options: &[&str]) -> Result<String> {
    let mut command = Command::new(&built()?.corprof);
    let output = command.args(["env", form]).args(options).output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The variables that `corprof env --k8s` prints.
///
/// # Errors
/// If it prints something else.
fn env_variables(options: &[&str]) -> Result<Variables> {
    let value: serde_json::Value = serde_saphyr::from_str(&env("--k8s", options)?)?;
    let list = value["env"].as_array().context("no list")?;
    let text = |variable: &serde_json::Value, name: &str| {
        variable[name].as_str().map(|text| text.replace("$$(", "$(")).context("no text")
    };
    list.iter().map(|one| Ok((text(one, "name")?, text(one, "value")?))).collect()
}

/// The file that a recipe copies, by its name; the startup hook too.
///
/// # Errors
/// If corprof has no such file, or it can't be built.
fn product(name: &str) -> Result<PathBuf> {
    let built = built()?;
    let files = [built.agent.clone(), built.corprof.clone(), hook()?];
    let found = files.into_iter().find(|file| file.ends_with(name));
    found.with_context(|| format!("corprof has no {name}"))
}
