//! The variables with which .NET's diagnostics can be switched off.

/// What is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// The diagnostics socket: nothing can be attached to a running process.
    Socket,
    /// Profilers, from the start and attached.
    Profiler,
}

impl Switch {
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Socket => ["EnableDiagnostics", "EnableDiagnostics_IPC"],
            Self::Profiler => ["EnableDiagnostics", "EnableDiagnostics_Profiler"],
        }
    }
}

/// The setting that switches it off, as `DOTNET_EnableDiagnostics=0`.
///
/// .NET looks at `DOTNET_…` before `COMPlus_…` and takes values as hexadecimal numbers.
#[must_use]
pub fn switched_off(switch: Switch, var: impl Fn(&str) -> Option<String>) -> Option<String> {
    switch.names().into_iter().find_map(|name| {
        let set = ["DOTNET_", "COMPlus_"].into_iter().find_map(|prefix| {
            let name = format!("{prefix}{name}");
            let value = var(&name).filter(|value| !value.trim().is_empty())?;
            Some((name, value))
        });
        let (name, value) = set?;
        let digits = value.trim();
        let digits = digits.strip_prefix("0x").or(digits.strip_prefix("0X")).unwrap_or(digits);
        (u32::from_str_radix(digits, 16) == Ok(0)).then(|| format!("{name}={}", value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off(switch: Switch, set: &[(&str, &str)]) -> Option<String> {
        switched_off(switch, |name| {
            let (_, value) = set.iter().find(|(other, _)| *other == name)?;
            Some((*value).to_owned())
        })
    }

    #[test]
    fn all_is_on_unless_somebody_says_zero() {
        let both = [Switch::Socket, Switch::Profiler];
        for switch in both {
            for set in [
                &[][..],
                &[("DOTNET_EnableDiagnostics", "1")],
                &[("COMPlus_EnableDiagnostics", "")],
            ] {
                assert_eq!(off(switch, set), None);
            }
            for (name, value) in
                [("DOTNET_EnableDiagnostics", "0"), ("COMPlus_EnableDiagnostics", " 0x00 ")]
            {
                assert_eq!(off(switch, &[(name, value)]), Some(format!("{name}={}", value.trim())));
            }
        }
        let socket = [("DOTNET_EnableDiagnostics_IPC", "0")];
        assert!(off(Switch::Socket, &socket).is_some() && off(Switch::Profiler, &socket).is_none());
        let profiler = [("COMPlus_EnableDiagnostics_Profiler", "0")];
        assert!(
            off(Switch::Profiler, &profiler).is_some() && off(Switch::Socket, &profiler).is_none()
        );
    }

    #[test]
    fn the_newer_name_counts_more() {
        let set = [("DOTNET_EnableDiagnostics", "1"), ("COMPlus_EnableDiagnostics", "0")];
        assert_eq!(off(Switch::Socket, &set), None);
    }
}
