using System;
using System.Collections.Generic;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>Pressure on the garbage collector, with objects that live for a while.</summary>
static class Memory
{
    const int Survivors = 200;

    public static void Allocate(Pulse pulse)
    {
        var kept = new Queue<object>();
        var random = new Random(1);
        while (pulse.Continues)
        {
            for (var i = 0; i < 100; i++)
            {
                // Now and then one for the large object heap.
                var size = random.Next(500) == 0 ? 100_000 : random.Next(16, 2_000);
                kept.Enqueue(new List<byte[]> { new byte[size] });
                if (kept.Count > Survivors)
                    kept.Dequeue();
            }
            pulse.Beat();
        }
    }

    /// <summary>Collections of all kinds, one after the other.</summary>
    public static void Collect(Pulse pulse)
    {
        for (var n = 0; pulse.Continues; n++)
        {
            var mode = n % 4 == 3 ? GCCollectionMode.Aggressive : GCCollectionMode.Forced;
            var generation = mode == GCCollectionMode.Aggressive ? 2 : n % 3;
            GC.Collect(generation, mode, blocking: true, compacting: n % 2 == 1);
            pulse.Beat();
            Thread.Sleep(20);
        }
    }
}
