//! The variables that make CoreCLR load the agent.

/// The agent's class id: CoreCLR asks the library for this class.
pub const PROFILER_GUID: &str = "{8A3F1C52-6B0D-4E57-9C1E-2D7C0F9B5A41}";

/// What has to be set for CoreCLR to load the agent from `agent_path`, which must be absolute.
#[must_use]
pub fn agent_variables(agent_path: &str) -> [(&'static str, String); 3] {
    [
        ("CORECLR_ENABLE_PROFILING", "1".to_owned()),
        ("CORECLR_PROFILER", PROFILER_GUID.to_owned()),
        ("CORECLR_PROFILER_PATH", agent_path.to_owned()),
    ]
}

/// What has to be set for CoreCLR of .NET 6 or later to load the agent beside another profiler,
/// whose variables stay; `others` is the list of those that are beside it already. The path must
/// have no `;` and no `=`.
#[must_use]
pub fn beside_variables(agent_path: &str, others: Option<&str>) -> [(&'static str, String); 2] {
    let others = others.unwrap_or_default().trim_end_matches(';');
    let separator = if others.is_empty() { "" } else { ";" };
    // .NET 9 passes over the last entry of the list unless a semicolon follows it.
    let list = format!("{others}{separator}{agent_path}={PROFILER_GUID};");
    [("CORECLR_ENABLE_NOTIFICATION_PROFILERS", "1".to_owned()), (BESIDE_LIST, list)]
}

/// The list of profilers that are loaded beside the main one: paths and class ids.
pub const BESIDE_LIST: &str = "CORECLR_NOTIFICATION_PROFILERS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_ends_with_a_semicolon() {
        for (others, list) in [
            (None, "/a.so={G};"),
            (Some(""), "/a.so={G};"),
            (Some("/b.so={B}"), "/b.so={B};/a.so={G};"),
            (Some("/b.so={B};"), "/b.so={B};/a.so={G};"),
        ] {
            let [_, (_, value)] = beside_variables("/a.so", others);
            assert_eq!(value.replace(PROFILER_GUID, "{G}"), list);
        }
    }
}
