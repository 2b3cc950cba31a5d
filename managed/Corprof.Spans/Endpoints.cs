using System.Collections.Concurrent;

namespace Corprof.Spans;

/// <summary>The agent's numbers of endpoints' names.</summary>
static class Endpoints
{
    // As many as the agent takes. A name that holds an id would be a new one each time.
    const int NamesMax = 2000;
    const int LengthMax = 256;

    static readonly ConcurrentDictionary<string, uint> Numbers = new();

    // Counted here, since the dictionary would lock itself to count.
    static int count;

    // What the agent calls those that came when there were too many.
    const string Others = "[other endpoints]";

    static uint others;

    /// <summary>The number of a name; 0 for none.</summary>
    public static uint Number(string? name)
    {
        if (string.IsNullOrEmpty(name))
            return 0;
        if (Numbers.TryGetValue(name, out var number))
            return number;
        if (count >= NamesMax)
            return others != 0 ? others : others = Agent.Endpoint(Others);
        if (name.Length > LengthMax)
            return Number(name.Substring(0, LengthMax));
        number = Agent.Endpoint(name);
        if (number != 0 && Numbers.TryAdd(name, number))
            System.Threading.Interlocked.Increment(ref count);
        return number;
    }
}
