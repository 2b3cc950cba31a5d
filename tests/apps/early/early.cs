using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Http;

namespace Corprof.TestApps;

/// <summary>
/// Loads an assembly of the web server's before there is any tracing. Whoever then loads the
/// assembly of activities, the first one begins at the first instant at which it can.
/// </summary>
static class Early
{
    const string Tracing = "System.Diagnostics.DiagnosticSource,";

    static int begun;
    static int seen;

    static int Main()
    {
        foreach (var assembly in AppDomain.CurrentDomain.GetAssemblies())
            if (IsTracing(assembly.FullName))
                throw new InvalidOperationException("tracing was there before the program");
        AppDomain.CurrentDomain.AssemblyLoad += OnLoad;
        LoadServer();
        new Truth().Add("begun", begun).Add("seen", seen).Tell();
        return 0;
    }

    static bool IsTracing(string? name) =>
        name != null && name.StartsWith(Tracing, StringComparison.Ordinal);

    static void OnLoad(object? sender, AssemblyLoadEventArgs load)
    {
        if (IsTracing(load.LoadedAssembly.FullName))
            Begin();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void LoadServer() => GC.KeepAlive(typeof(HttpContext));

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Begin()
    {
        using var activity = new Activity("first").Start();
        begun++;
        seen += ContextBlock.Read().Is(activity) ? 1 : 0;
    }
}
