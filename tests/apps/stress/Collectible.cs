using System;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>This very program, loaded once more, run, and unloaded, over and over.</summary>
static class Collectible
{
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
