// A startup hook that runs another program's Main inside a single-file program's runtime, in the
// place of that program's own Main.
using System;
using System.IO;
using System.Reflection;
using System.Runtime.Loader;

/// <summary>The name and the method that the runtime looks for in a startup hook.</summary>
internal static class StartupHook
{
    public static void Initialize()
    {
        if (Environment.GetEnvironmentVariable("RIG_APP") is not { Length: > 0 } path)
            return;
        var directory = Path.GetDirectoryName(Path.GetFullPath(path))!;
        AssemblyLoadContext.Default.Resolving += (context, name) =>
        {
            var candidate = Path.Combine(directory, name.Name + ".dll");
            return File.Exists(candidate) ? context.LoadFromAssemblyPath(candidate) : null;
        };

        StartHooksAfterThis();
        var app = AssemblyLoadContext.Default.LoadFromAssemblyPath(Path.GetFullPath(path));
        var main = app.EntryPoint!;
        // The process was given the program's arguments: the hook takes them as they are.
        object[] arguments = main.GetParameters().Length == 0
            ? []
            : [Environment.GetCommandLineArgs()[1..]];
        // Unwrapped, so that an unhandled exception ends the process as it would on its own.
        var result = main.Invoke(null, BindingFlags.DoNotWrapExceptions, null, arguments, null);
        Environment.Exit(result is int code ? code : Environment.ExitCode);
    }

    /// <summary>
    /// The runtime would come to them when this one returns, and that is after the program.
    /// </summary>
    static void StartHooksAfterThis()
    {
        var hooks = (Environment.GetEnvironmentVariable("DOTNET_STARTUP_HOOKS") ?? "")
            .Split(Path.PathSeparator);
        var own = typeof(StartupHook).Assembly.Location;
        foreach (var hook in hooks[(Array.IndexOf(hooks, own) + 1)..])
        {
            var assembly = AssemblyLoadContext.Default.LoadFromAssemblyPath(hook);
            assembly.GetType("StartupHook")!.GetMethod("Initialize")!.Invoke(null, null);
        }
    }
}
