using System;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Corprof.Spans;

/// <summary>
/// Waits for the assemblies that there is something to follow in. A program that traces nothing
/// never loads them, and so neither do we.
/// </summary>
static class Arrivals
{
    const string Activity = "System.Diagnostics.DiagnosticSource,";
    const string Server = "Microsoft.AspNetCore";

    // From this version on the runtime's own assembly of activities has what is needed.
    const int VersionMin = 7;

    static int activities;
    static int servers;

    /// <summary>
    /// Follows activities and requests, from before there can be any; false if this runtime does
    /// not tell of them.
    /// </summary>
    public static bool Await()
    {
        // A program may have brought a later one with it; that it is what loads takes loading it.
        if (Environment.Version.Major < VersionMin)
            return FollowAll();
        var domain = AppDomain.CurrentDomain;
        domain.AssemblyLoad += OnLoad;
        // Another startup hook may have loaded them before.
        foreach (var assembly in domain.GetAssemblies())
            Look(assembly.FullName);
        return true;
    }

    static bool FollowAll()
    {
        if (!Activities.Follow())
            return false;
        HttpRequests.Follow();
        return true;
    }

    /// <summary>
    /// Called on the thread that loads an assembly. The runtime holds other threads that want the
    /// same one until this returns, so nothing of it has run by then.
    /// </summary>
    static void OnLoad(object? sender, AssemblyLoadEventArgs load)
    {
        // The caller is the program itself: nothing of ours may end its work.
        try
        {
            Look(load.LoadedAssembly.FullName);
        }
        catch (Exception error)
        {
            Log.Say("off: " + error.Message);
        }
    }

    static void Look(string? name)
    {
        if (name == null)
            return;
        if (name.StartsWith(Activity, StringComparison.Ordinal))
            FollowActivities();
        else if (name.StartsWith(Server, StringComparison.Ordinal))
            FollowRequests();
    }

    static void FollowActivities()
    {
        if (Interlocked.Exchange(ref activities, 1) == 0)
            Activities.Follow();
    }

    static void FollowRequests()
    {
        // Before anything loads another one of the server's, which comes here again.
        if (Interlocked.Exchange(ref servers, 1) != 0)
            return;
        // It is their own arrival that has activities followed, here or on a thread that loads them
        // at this very moment, since only that holds up who wants to begin one. Our own lock can't:
        // that thread would wait for it, and we for that thread.
        LoadActivities();
        // If they were there before we listened.
        FollowActivities();
        AppDomain.CurrentDomain.AssemblyLoad -= OnLoad;
        HttpRequests.Follow();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void LoadActivities() => GC.KeepAlive(typeof(System.Diagnostics.Activity));
}
