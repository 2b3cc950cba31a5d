using System;
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Linq;
using System.Net.Http;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;

namespace Corprof.TestApps;

/// <summary>
/// Many requests, in each of which the block of the thread that works for it is read at several
/// points, and outside of which it must be empty.
/// </summary>
static class Verification
{
    const int Clients = 8;

    // So that a failure can be understood, and does not drown the rest.
    const int ShownMax = 20;

    static readonly string[] Paths = { "/checked/7", "/sync", "/fails", "/queues", "/leaves" };
    static readonly ActivitySource Source = new("Corprof.TestApps.Requests");

    // The local roots of all requests so far: each has one of its own.
    static readonly ConcurrentDictionary<ulong, bool> Roots = new();

    static readonly bool IsPublishing =
        Environment.GetEnvironmentVariable("CORPROF_OTEL_CONTEXT") == "true";

    static bool hasActivities;
    static long checks;
    static long wrong;
    static long requests;

    /// <summary>Adds the endpoints, and a check before all of them.</summary>
    public static void Map(WebApplication app, Arguments arguments)
    {
        hasActivities = !arguments.Has("no-activities");
        var hasNone = !hasActivities && !arguments.Has("instrumented");
        app.Use(async (context, next) =>
        {
            Interlocked.Increment(ref requests);
            var begin = InRequest("begin");
            That(!hasNone || Activity.Current == null, "no activity that nobody wanted");
            That(Roots.TryAdd(begin.LocalRoot, true), "a root of its own, " + context.Request.Path);
            context.Response.OnCompleted(() =>
            {
                Same(begin, "completed");
                return Task.CompletedTask;
            });
            await next(context);
            Same(begin, "end");
        });
        app.MapGet("/checked/{id:int}", (int id) => Checked());
        app.MapGet("/sync", Sync);
        app.MapGet("/fails", Fails);
        app.MapGet("/queues", Queues);
        app.MapGet("/leaves", Leaves);
    }

    /// <summary>Asks so many times; 0 if all was right.</summary>
    public static async Task<int> Run(string url, int times, Truth truth)
    {
        var left = times;
        var clients = Enumerable.Range(0, Clients).Select(async client =>
        {
            // A connection of its own, which all its requests share.
            using var http = new HttpClient { BaseAddress = new Uri(url) };
            for (var i = client; Interlocked.Decrement(ref left) >= 0; i++)
            {
                using var answer = await http.GetAsync(Paths[i % Paths.Length]);
                await answer.Content.ReadAsByteArrayAsync();
                Outside("client");
            }
        });
        await Task.WhenAll(clients);
        truth.Add("checks", checks).Add("wrong", wrong).Add("requests", requests);
        truth.Add("roots", Roots.Count);
        return wrong == 0 && requests == times && ContextBlock.HasAgent ? 0 : 1;
    }

    static async Task<string> Checked()
    {
        var begin = InRequest("handler");
        await Task.Yield();
        Same(begin, "after a yield");
        await Task.Delay(1);
        Same(begin, "after a delay");
        await Task.Run(() => Same(begin, "in a task"));
        using (var child = Source.StartActivity("child"))
        {
            await Task.Yield();
            var block = InRequest("child");
            That(block.LocalRoot == begin.LocalRoot, "a child has the request's root");
        }
        Same(begin, "after the child");
        using (Labels.Set("tenant", "a"))
        {
            await Task.Yield();
            That(ContextBlock.Read().Labels != 0, "a label");
        }
        var thread = new Thread(() => Same(begin, "in a thread"));
        thread.Start();
        thread.Join();
        Same(begin, "after the label");
        return begin.TraceId;
    }

    static string Sync()
    {
        if (IsPublishing)
            That(ContextBlock.IsPublished(), "OpenTelemetry's thread context");
        return InRequest("sync").SpanId;
    }

    static string Fails()
    {
        InRequest("before a failure");
        throw new InvalidOperationException("on demand");
    }

    static async Task Queues()
    {
        var begin = InRequest("handler");
        var done = new TaskCompletionSource();
        ThreadPool.UnsafeQueueUserWorkItem(_ =>
        {
            Outside("pool thread");
            done.SetResult();
        }, null);
        await done.Task;
        Same(begin, "after the pool's thread");
    }

    /// <summary>Leaves a label, an activity and work behind.</summary>
    static async Task Leaves()
    {
        var begin = InRequest("handler");
        _ = Task.Run(async () =>
        {
            await Task.Delay(5);
            Same(begin, "work that was left");
        });
        Labels.Set("forgotten", "x");
        await Task.Yield();
        new Activity("forgotten").Start();
        InRequest("forgotten activity");
    }

    /// <summary>The thread works for the current activity, or for a request without one.</summary>
    static ContextBlock InRequest(string where)
    {
        var block = ContextBlock.Read();
        var current = Activity.Current;
        if (hasActivities || current != null)
            That(current != null && block.Is(current), where);
        else
            That(block.SpanId != "" && block.LocalRoot != 0, where);
        That(block.LocalRoot != 0, where + ": a root");
        return block;
    }

    static void Same(ContextBlock begin, string where)
    {
        var block = InRequest(where);
        That(block.SpanId == begin.SpanId && block.LocalRoot == begin.LocalRoot
            && block.Labels == begin.Labels, where + ": the same as in the beginning");
    }

    static void Outside(string where)
    {
        var block = ContextBlock.Read();
        That(Activity.Current == null && block.Is(null) && block.LocalRoot == 0
            && block.Labels == 0, where + ": nothing");
    }

    static void That(bool holds, string what)
    {
        Interlocked.Increment(ref checks);
        if (!holds && Interlocked.Increment(ref wrong) <= ShownMax)
        {
            Console.WriteLine(
                $"WRONG: {what}: {ContextBlock.Read()}; current {Activity.Current?.Id}");
        }
    }
}
