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

    /// <summary>The number of a name; 0 if there is none or there are too many.</summary>
    public static uint Number(string? name)
    {
        if (string.IsNullOrEmpty(name))
            return 0;
        if (Numbers.TryGetValue(name, out var number))
            return number;
        if (count >= NamesMax)
            return 0;
        if (name.Length > LengthMax)
            return Number(name.Substring(0, LengthMax));
        number = Agent.Endpoint(name);
        if (number != 0 && Numbers.TryAdd(name, number))
            System.Threading.Interlocked.Increment(ref count);
        return number;
    }
}
