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
