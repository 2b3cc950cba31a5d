using System.Diagnostics;
using System.Threading;

namespace Corprof.Spans;

/// <summary>
/// What a process does for one caller: all that happens under one span without a parent in this
/// process, its local root.
/// </summary>
sealed class Request
{
    const double NanosPerSecond = 1e9;

    /// <summary>The local root's id, as a number.</summary>
    public readonly ulong Id;

    /// <summary>The Activity that it began with; null if there was none.</summary>
    public readonly object? Activity;

    /// <summary>What the flow worked for before, and will again.</summary>
    public readonly Context? Outer;

    /// <summary>Whether an HTTP server has told of it.</summary>
    public bool IsHttp;

    // An activity has its own.
    readonly long begin;

    uint endpoint;
    int hasEnded;

    /// <summary>A request that begins now, in a flow that worked for something else.</summary>
    public Request(ulong id, object? activity, Context? from)
    {
        Id = id;
        Activity = activity;
        Outer = Context.Remembered(from);
        if (activity == null)
            begin = Stopwatch.GetTimestamp();
    }

    /// <summary>Whether the route is known: of all names that is the best.</summary>
    public bool HasRoute { get; private set; }

    /// <summary>Nanoseconds since the beginning; only of a request without an activity.</summary>
    public ulong ElapsedNanos =>
        (ulong)((Stopwatch.GetTimestamp() - begin) * (NanosPerSecond / Stopwatch.Frequency));

    /// <summary>Names the endpoint that it is for, as far as is known so far.</summary>
    public void Name(uint endpoint)
    {
        if (HasRoute || endpoint == 0 || endpoint == this.endpoint)
            return;
        this.endpoint = endpoint;
        Agent.Request(Id, endpoint);
    }

    /// <summary>
    /// Names it by its route. The first one counts: the page that shows an error is another.
    /// </summary>
    public void NameRoute(uint endpoint)
    {
        Name(endpoint);
        HasRoute |= endpoint != 0;
    }

    /// <summary>Tells its end, once.</summary>
    public void End(ulong nanos)
    {
        if (Interlocked.Exchange(ref hasEnded, 1) == 0)
            Agent.RequestEnd(Id, nanos);
    }
}
