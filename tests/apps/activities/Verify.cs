using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Corprof.TestApps;

/// <summary>What the block must say in each situation that a program can bring about.</summary>
static class Verify
{
    static int checks;
    static int wrong;

    static ActivitySource Source => Activities.Source;

    /// <summary>Runs all of it; fails if anything was wrong, or there was nothing to ask.</summary>
    public static int Run()
    {
        new (string, Func<Task>)[]
        {
            ("nested", Nested), ("deep", Deep), ("async", Async), ("threads", Threads),
            ("legacy", Legacy), ("hierarchical", Hierarchical), ("out of order", OutOfOrder),
            ("set by hand", SetByHand), ("remote parents", RemoteParents),
            ("suppressed flow", SuppressedFlow), ("labels", LabelsNest),
            ("labels and spans", LabelsAndSpans), ("left behind", LeftBehind),
            ("many", Many), ("over", Over),
        }.ToList().ForEach(test => Check(test.Item1, test.Item2));
        new Truth().Add("checks", checks).Add("wrong", wrong).Tell();
        return wrong == 0 && ContextBlock.HasAgent ? 0 : 1;
    }

    static void Check(string name, Func<Task> test)
    {
        var before = (checks, wrong);
        // Each in a flow of its own.
        Task.Run(test).Wait();
        Console.WriteLine($"{name}: {checks - before.checks} checks, {wrong - before.wrong} wrong");
        Activity.Current = null;
        That(ContextBlock.Read().Is(null), "nothing is left behind");
    }

    static void That(bool holds, string what)
    {
        Interlocked.Increment(ref checks);
        if (holds)
            return;
        Interlocked.Increment(ref wrong);
        Console.WriteLine($"WRONG: {what}: {ContextBlock.Read()}; "
            + $"current {Activity.Current?.Id}\n{new StackTrace(1)}");
    }

    /// <summary>The block has the activity, and that one as local root.</summary>
    static void Has(Activity? activity, Activity? root)
    {
        var block = ContextBlock.Read();
        That(block.Is(activity), $"expected {activity?.Id}");
        That(block.LocalRoot == Number(root), $"expected root {root?.SpanId}");
    }

    static ulong Number(Activity? activity) =>
        activity == null ? 0 : Convert.ToUInt64(activity.SpanId.ToHexString(), 16);

    static Task Nested()
    {
        Has(null, null);
        using (var unheard = new ActivitySource("Corprof.TestApps.Unheard"))
            That(!unheard.HasListeners(), "nobody listens to what the program does not");
        using (var root = Source.StartActivity("root"))
        {
            That(root != null, "activities are listened to");
            Has(root, root);
            using (var child = Source.StartActivity("child"))
            {
                Has(child, root);
                using (var grandchild = Source.StartActivity("grandchild"))
                    Has(grandchild, root);
                Has(child, root);
            }
            Has(root, root);
        }
        Has(null, null);
        return Task.CompletedTask;
    }

    // Deeper than contexts are remembered, and than the way to a root is looked for.
    static Task Deep()
    {
        const int Depth = 3000;
        using var root = Source.StartActivity("root");
        var stack = new Stack<Activity>();
        for (var i = 0; i < Depth; i++)
        {
            stack.Push(Source.StartActivity("deeper")!);
            Has(stack.Peek(), root);
        }
        while (stack.TryPop(out var activity))
        {
            Has(activity, root);
            activity.Dispose();
        }
        Has(root, root);
        return Task.CompletedTask;
    }

    static async Task Async()
    {
        using var root = Source.StartActivity("root");
        var tasks = Enumerable.Range(0, 20).Select(async i =>
        {
            for (var j = 0; j < 50; j++)
            {
                using var child = Source.StartActivity("child");
                Has(child, root);
                await Task.Yield();
                Has(child, root);
                await Task.Delay(j % 3).ConfigureAwait(false);
                Has(child, root);
            }
        });
        await Task.WhenAll(tasks);
        Has(root, root);
    }

    static async Task Threads()
    {
        using var root = Source.StartActivity("root");
        var thread = new Thread(() => Has(root, root));
        thread.Start();
        thread.Join();
        var other = new Thread(() => Has(null, null));
        using (ExecutionContext.SuppressFlow())
            other.Start();
        other.Join();

        var done = new TaskCompletionSource<bool>();
        using var timer = new Timer(_ =>
        {
            Has(root, root);
            done.TrySetResult(true);
        }, null, 1, Timeout.Infinite);
        await done.Task;
        var queued = new TaskCompletionSource<bool>();
        ThreadPool.UnsafeQueueUserWorkItem(_ =>
        {
            Has(null, null);
            queued.SetResult(true);
        }, null);
        await queued.Task;
        Parallel.For(0, 100, _ => Has(root, root));
    }

    static async Task Legacy()
    {
        var root = new Activity("legacy").Start();
        Has(root, root);
        await Task.Yield();
        var child = new Activity("child").Start();
        Has(child, root);
        child.Stop();
        Has(root, root);
        root.Stop();
        Has(null, null);
    }

    static Task Hierarchical()
    {
        var root = new Activity("root").SetIdFormat(ActivityIdFormat.Hierarchical).Start();
        var block = ContextBlock.Read();
        That(block.TraceId == new string('0', 32) && block.SpanId != "", "a span without a trace");
        That(block.LocalRoot == Convert.ToUInt64(block.SpanId, 16), "its own root");
        var child = new Activity("child").Start();
        var inner = ContextBlock.Read();
        That(inner.SpanId != block.SpanId && inner.LocalRoot == block.LocalRoot, "a child");
        child.Stop();
        That(ContextBlock.Read().SpanId == block.SpanId, "the root again");
        root.Stop();
        Has(null, null);
        return Task.CompletedTask;
    }

    static Task OutOfOrder()
    {
        var root = Source.StartActivity("root")!;
        var child = Source.StartActivity("child")!;
        var grandchild = Source.StartActivity("grandchild")!;
        child.Stop();
        Has(root, root);
        // The runtime makes the stopped child current now; the work is for the root.
        grandchild.Stop();
        Has(root, root);
        root.Stop();
        Has(null, null);

        var first = Source.StartActivity("first")!;
        var second = Source.StartActivity("second")!;
        first.Stop();
        Has(null, null);
        second.Stop();
        Has(null, null);
        return Task.CompletedTask;
    }

    static Task SetByHand()
    {
        using var root = Source.StartActivity("root")!;
        using var child = Source.StartActivity("child")!;
        Activity.Current = null;
        Has(null, null);
        Activity.Current = child;
        Has(child, root);
        Activity.Current = root;
        Has(root, root);
        using (var other = Source.StartActivity("other"))
            Has(other, root);
        Activity.Current = child;
        Has(child, root);

        Activity.Current = null;
        using (var separate = Source.StartActivity("separate"))
            Has(separate, separate);
        Has(null, null);
        Activity.Current = child;
        Has(child, root);
        return Task.CompletedTask;
    }

    static async Task RemoteParents()
    {
        using var around = Source.StartActivity("around")!;
        var remote = new ActivityContext(
            ActivityTraceId.CreateRandom(), ActivitySpanId.CreateRandom(), default);
        using (var server = Source.StartActivity("server", ActivityKind.Server, remote))
        {
            Has(server, server);
            await Task.Yield();
            using (var child = Source.StartActivity("child"))
                Has(child, server);
            Has(server, server);
        }
        Has(around, around);

        // Known by its ids only, but the one that is current.
        using (var known = Source.StartActivity("known", ActivityKind.Internal, around.Context))
            Has(known, around);
        Has(around, around);
    }

    static async Task SuppressedFlow()
    {
        using var root = Source.StartActivity("root")!;
        using var child = Source.StartActivity("child")!;
        Task task;
        using (ExecutionContext.SuppressFlow())
        {
            Has(child, root);
            task = Task.Run(() =>
            {
                Has(null, null);
                Activity.Current = child;
                Has(child, root);
                using (var inner = Source.StartActivity("inner"))
                    Has(inner, root);
                Has(child, root);
            });
        }
        await task;
        Has(child, root);
    }

    static async Task LabelsNest()
    {
        That(ContextBlock.Read().Labels == 0, "no labels");
        using (Labels.Set("tenant", "a"))
        {
            var a = ContextBlock.Read().Labels;
            That(a != 0, "a label");
            using (Labels.Set("tenant", "b"))
            {
                That(ContextBlock.Read().Labels != a, "another value");
                await Task.Yield();
                using (Labels.Set("tenant", "a"))
                    That(ContextBlock.Read().Labels == a, "the same set has the same number");
            }
            That(ContextBlock.Read().Labels == a, "back to the first");
            await Task.Delay(1);
            That(ContextBlock.Read().Labels == a, "after an await");
            using (Labels.Set("tenant", null))
                That(ContextBlock.Read().Labels == 0, "without the label");
            using (Labels.Set("", "x"))
                That(ContextBlock.Read().Labels == a, "a label without a name");
            await Task.Run(() => That(ContextBlock.Read().Labels == a, "in a task"));
        }
        ulong both;
        using (Labels.Set("x", "1"))
        using (Labels.Set("y", "2"))
            both = ContextBlock.Read().Labels;
        using (Labels.Set("y", "2"))
        using (Labels.Set("x", "1"))
            That(ContextBlock.Read().Labels == both, "in whichever order");
        That(ContextBlock.Read().Labels == 0, "no labels in the end");
        default(Labels.Scope).Dispose();
    }

    static async Task LabelsAndSpans()
    {
        using (var root = Source.StartActivity("root"))
        {
            var scope = Labels.Set("tenant", "a");
            var a = ContextBlock.Read().Labels;
            Has(root, root);
            using (var child = Source.StartActivity("child"))
            {
                Has(child, root);
                That(ContextBlock.Read().Labels == a, "a child has the labels");
                await Task.Yield();
                using (Labels.Set("step", "1"))
                    That(ContextBlock.Read().Labels != a, "one more");
            }
            That(ContextBlock.Read().Labels == a, "after the child");
            Has(root, root);
            scope.Dispose();
            That(ContextBlock.Read().Labels == 0, "after the label");
            Has(root, root);
            // Never disposed: it must end with the request.
            Labels.Set("forgotten", "x");
        }
        Has(null, null);
        That(ContextBlock.Read().Labels == 0, "a forgotten label ends with the request");
        var outer = Labels.Set("outer", "1");
        var number = ContextBlock.Read().Labels;
        using (Source.StartActivity("root"))
            That(ContextBlock.Read().Labels == number, "a request within a label");
        That(ContextBlock.Read().Labels == number, "the label outlives the request");
        outer.Dispose();
    }

    /// <summary>Work that goes on after its request has ended stays the request's.</summary>
    static async Task LeftBehind()
    {
        Task after;
        Activity? root;
        var gate =
            new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
        using (root = Source.StartActivity("root"))
        {
            after = Task.Run(async () =>
            {
                await gate.Task;
                Has(root, root);
            });
        }
        Has(null, null);
        gate.SetResult(true);
        await after;
        await Task.WhenAll(Enumerable.Range(0, 100).Select(_ => Task.Run(() => Has(null, null))));
    }

    /// <summary>Flows that enter spans and never leave them must not keep all of them.</summary>
    static Task Many()
    {
        var first = new WeakReference(null);
        for (var i = 0; i < 2_000; i++)
        {
            Activity.Current = null;
            var activity = Source.StartActivity("never stopped");
            Has(activity, activity);
            if (i == 0)
                first.Target = activity;
        }
        for (var i = 0; i < 10; i++)
            GC.Collect();
        That(first.Target == null, "the first is not kept");
        Activity.Current = null;
        Has(null, null);
        return Task.CompletedTask;
    }

    /// <summary>
    /// Requests that are over leave nothing, and the collector nothing to look through: with a
    /// handle for each of them it stopped the program several times as long.
    /// </summary>
    static Task Over()
    {
        const int Requests = 10_000;
        const long BytesMax = 64 << 10;
        var before = 0L;
        // The first ones are for what is made once.
        foreach (var requests in new[] { 100, Requests })
        {
            before = GC.GetTotalMemory(forceFullCollection: true);
            for (var i = 0; i < requests; i++)
                Source.StartActivity("over")!.Dispose();
        }
        var left = GC.GetTotalMemory(forceFullCollection: true) - before;
        That(left < BytesMax, $"{left} bytes are left of {Requests} requests");
        return Task.CompletedTask;
    }
}
