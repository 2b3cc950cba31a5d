using System;
using System.Collections.Generic;

namespace Corprof.TestApps;

/// <summary>Work for the garbage collector: many small objects, of which enough live on.</summary>
static class Garbage
{
    const int Survivors = 200_000;

    sealed class Node
    {
        public Node Next;
        public byte[] Bytes;
    }

    public static void Allocate(Func<bool> continues)
    {
        var random = new Random(1);
        var kept = new Node[Survivors];
        while (continues())
        {
            for (var i = 0; i < 10_000; i++)
            {
                var place = random.Next(Survivors);
                var other = kept[random.Next(Survivors)];
                kept[place] = new Node { Next = other, Bytes = new byte[random.Next(16, 200)] };
                // Else the lists would grow for ever.
                if (other != null)
                    other.Next = null;
            }
        }
        GC.KeepAlive(kept);
    }
}
