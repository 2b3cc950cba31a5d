using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Routing;

namespace Corprof.TestApps;

/// <summary>What the service knows: sums by endpoint, and all pieces of work.</summary>
sealed class Book
{
    readonly ConcurrentDictionary<string, Sums> sums = new();
    readonly ConcurrentQueue<string> pieces = new();

    /// <summary>The sums; an endpoint is named by its route.</summary>
    public IEnumerable<Truth> Truths =>
        sums.OrderBy(entry => entry.Key, StringComparer.Ordinal).Select(entry => new Truth()
            .Add("name", entry.Key)
            .Add("requests", entry.Value.Requests)
            .Add("elapsed_ns", entry.Value.Elapsed)
            .Add("pieces", entry.Value.Pieces)
            .Add("cpu_ns", entry.Value.Cpu)
            .Add("piece_wall_ns", entry.Value.Wall));

    /// <summary>Around all that the service itself does for a request.</summary>
    public async Task Measure(HttpContext context, RequestDelegate next)
    {
        var begin = Crew.WallNow();
        await next(context);
        var route = (context.GetEndpoint() as RouteEndpoint)?.RoutePattern.RawText ?? "";
        var sum = Of(route);
        Interlocked.Increment(ref sum.Requests);
        Interlocked.Add(ref sum.Elapsed, Crew.WallNow() - begin);
    }

    /// <summary>A piece of work, which does not leave its thread.</summary>
    public void Piece(string endpoint, Action work)
    {
        var activity = Activity.Current;
        var (cpu, begin) = (Kernel.ThreadCpu, Crew.WallNow());
        work();
        var (end, used) = (Crew.WallNow(), Kernel.ThreadCpu - cpu);
        var sum = Of(endpoint);
        Interlocked.Increment(ref sum.Pieces);
        Interlocked.Add(ref sum.Cpu, used);
        Interlocked.Add(ref sum.Wall, end - begin);
        var ids = activity == null ? "- -" : activity.TraceId + " " + activity.SpanId;
        pieces.Enqueue($"{Kernel.ThreadId} {ids} {begin} {end} {used} {endpoint}");
    }

    /// <summary>
    /// Writes a line a piece: thread, trace, span, begin and end (the clock of the stopwatch, in
    /// nanoseconds), CPU nanoseconds, endpoint.
    /// </summary>
    public void WriteTo(string path) => File.WriteAllLines(path, pieces);

    Sums Of(string endpoint) => sums.GetOrAdd(endpoint, _ => new Sums());

    sealed class Sums
    {
        public long Requests;
        public long Elapsed;
        public long Pieces;
        public long Cpu;
        public long Wall;
    }
}
