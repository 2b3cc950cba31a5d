using System;
using System.Collections.Concurrent;
using System.Linq;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>This very program, loaded once more, run, and unloaded, over and over.</summary>
static class Collectible
{
    /// <summary>Collections after which what is still there is held by somebody.</summary>
    const int CollectionsMax = 20;

    static readonly ConcurrentBag<WeakReference> Contexts = new();

    /// <summary>How many contexts are there although nothing of the program's holds them.</summary>
    public static int Held()
    {
        for (var i = 0; i < CollectionsMax && Contexts.Any(context => context.IsAlive); i++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
        return Contexts.Count(context => context.IsAlive);
    }

    public static void LoadAndUnload(Pulse pulse)
    {
        while (pulse.Continues)
        {
            Run(7);
            pulse.Beat();
            // Many at a time would be many megabytes.
            Thread.Sleep(20);
        }
    }

    // Not inlined: nothing of it may be left in a register of the caller when it is unloaded.
    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Run(int seed)
    {
        var context = new AssemblyLoadContext(null, isCollectible: true);
        Contexts.Add(new WeakReference(context, trackResurrection: true));
        var assembly = context.LoadFromAssemblyPath(typeof(Collectible).Assembly.Location);
        var type = assembly.GetType(typeof(Collectible).FullName);
        var method = type.GetMethod(nameof(Compute), BindingFlags.Static | BindingFlags.NonPublic);
        var compute = method.CreateDelegate<Func<int, int>>();
        if (type == typeof(Collectible) || compute(seed) != Compute(seed))
            throw new InvalidOperationException("the copy is none, or computes otherwise");
        context.Unload();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Compute(int seed)
    {
        var sum = 0;
        for (var i = 0; i < 300_000; i++)
            sum = sum * 31 + i / seed;
        return sum;
    }
}
