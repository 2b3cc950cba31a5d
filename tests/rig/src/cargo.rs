//! Cargo, started by a program that cargo itself has started.

use std::process::Command;

/// What cargo tells the programs that it runs about their package. Build scripts watch some of it
/// (`ring`'s does): handed on, it would have them run again, and all that depends on them be built
/// anew, whenever another package's program starts cargo.
const OF_A_PACKAGE: [&str; 5] =
    ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// The cargo that runs this program, as a shell would start it.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if OF_A_PACKAGE.iter().any(|start| name.as_encoded_bytes().starts_with(start.as_bytes())) {
            command.env_remove(name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_this_package_is_handed_on() {
        let command = cargo();
        let removed =
            |name: &str| command.get_envs().any(|(n, value)| n == name && value.is_none());
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "else this shows nothing");
        assert!(removed("CARGO_MANIFEST_DIR") && removed("CARGO_PKG_VERSION_MAJOR"));
        assert!(!removed("CARGO_HOME") && !removed("PATH"));
    }
}
