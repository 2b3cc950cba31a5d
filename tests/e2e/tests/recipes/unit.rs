//! Files of systemd's units: sections, settings, variables.

use anyhow::{Context, Result, ensure};

/// A setting: its section, its name, its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// `Service`.
    pub section: String,
    /// `Environment`.
    pub name: String,
    /// As it is written, with specifiers.
    pub value: String,
}

/// The settings of a unit file, in their order.
///
/// # Errors
/// If a line is none.
pub fn settings(text: &str) -> Result<Vec<Setting>> {
    let mut section = None;
    let mut settings = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        ensure!(!line.ends_with('\\'), "a continued line: {line}");
        if let Some(name) = line.strip_prefix('[') {
            section = Some(name.strip_suffix(']').context(line.to_owned())?.to_owned());
            continue;
        }
        let (name, value) = line.split_once('=').context(line.to_owned())?;
        let section = section.clone().with_context(|| format!("{line} is in no section"))?;
        settings.push(Setting { section, name: name.to_owned(), value: value.to_owned() });
    }
    Ok(settings)
}

/// The last value of a setting of `[Service]`, for the service of that name.
///
/// # Errors
/// If there is none.
pub fn value(settings: &[Setting], name: &str, service: &str) -> Result<String> {
    let found = settings.iter().rev().find(|s| s.section == "Service" && s.name == name);
    Ok(expanded(&found.with_context(|| format!("no {name}="))?.value, service))
}

/// The variables of a service of that name.
///
/// # Errors
/// If one is not written `Environment="NAME=VALUE"`.
pub fn variables(settings: &[Setting], service: &str) -> Result<Vec<(String, String)>> {
    let mut variables = Vec::new();
    for Setting { section, name, value } in settings {
        if name != "Environment" {
            continue;
        }
        ensure!(section == "Service", "{name} in [{section}]");
        let text = value.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let text = text.filter(|text| !text.contains(['"', '\\'])).context(value.clone())?;
        let (name, value) = text.split_once('=').context(text.to_owned())?;
        variables.push((name.to_owned(), expanded(value, service)));
    }
    Ok(variables)
}

fn expanded(text: &str, service: &str) -> String {
    text.replace("%N", service)
}

#[test]
fn settings_and_variables_are_read() -> Result<()> {
    let text = "# c\n[Unit]\nA=b=c\n\n[Service]\nEnvironment=\"X=%N y\"\nD=1\nD=2\n";
    let found = settings(text)?;
    ensure!(found.len() == 4 && found[0].value == "b=c", "{found:?}");
    ensure!(variables(&found, "s")? == [("X".to_owned(), "s y".to_owned())]);
    ensure!(value(&found, "D", "s")? == "2" && value(&found, "A", "s").is_err());
    for wrong in ["A=b", "[X", "[X]\nA", "[X]\nA=b\\\nc"] {
        ensure!(settings(wrong).is_err(), "{wrong}");
    }
    ensure!(variables(&settings("[Service]\nEnvironment=X=a Y=b")?, "s").is_err());
    Ok(())
}
