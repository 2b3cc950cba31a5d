using System;
using System.Runtime.CompilerServices;
using Corprof.Spans;

/// <summary>
/// The name and the method that the runtime looks for in a startup hook. It tells the profiler's
/// agent in this process which request each thread works for.
/// </summary>
internal class StartupHook
{
    /// <summary>Called by the runtime before <c>Main</c>.</summary>
    public static void Initialize()
    {
        // An exception that leaves a startup hook ends the program before it has begun, and so
        // would a method that can't be compiled on an old runtime: hence the method of its own.
        try
        {
            Start();
        }
        catch (Exception error)
        {
            Log.Say("off: " + error.Message);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Start()
    {
        if (Labels.ArePublished)
            Log.Say("named twice as a startup hook");
        else if (!Settings.Spans)
            Log.Say("off: CORPROF_SPANS is false");
        else if (!Agent.Find())
            Log.Say("off: there is no agent in this process, or it does not profile");
        else
            Log.Say(Publish() ? "on" : "only labels: no Activity.CurrentChanged before .NET 7");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static bool Publish()
    {
        Labels.Publish();
        return Arrivals.Await();
    }
}
