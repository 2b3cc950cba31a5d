using System;

namespace Corprof.Spans;

/// <summary>What the environment says, by the names that the agent has for it.</summary>
static class Settings
{
    /// <summary>Whether to do anything at all.</summary>
    public static bool Spans => Text("CORPROF_SPANS") switch
    {
        "false" or "0" or "no" or "off" => false,
        _ => true,
    };

    /// <summary>Whether the agent says what it does, and so do we.</summary>
    public static bool IsTalkative => Text("CORPROF_LOG") is "info" or "debug";

    /// <summary>Where it says it; empty for standard error.</summary>
    public static string LogFile => Environment.GetEnvironmentVariable("CORPROF_LOG_FILE") ?? "";

    static string Text(string name) =>
        (Environment.GetEnvironmentVariable(name) ?? "").Trim().ToLowerInvariant();
}
