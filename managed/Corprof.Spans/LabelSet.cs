using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Threading;

namespace Corprof.Spans;

/// <summary>A set of labels, never changed once made, and the agent's number for it.</summary>
sealed class LabelSet
{
    // What the agent takes of each; more would only be cut there.
    const int LabelsMax = 10;
    const int NameMax = 64;
    const int ValueMax = 256;
    const int SetsMax = 10_000;

    static readonly ConcurrentDictionary<(LabelSet?, string, string?), LabelSet?> Known = new();
    static int count;

    // Sorted by name, so that the same labels are the same set in whichever order they were set.
    readonly SortedDictionary<string, string> labels;

    LabelSet(SortedDictionary<string, string> labels)
    {
        this.labels = labels;
        Number = Agent.Labels(labels);
    }

    /// <summary>The agent's number; 0 if it has too many sets already.</summary>
    public ulong Number { get; }

    /// <summary>
    /// A set with one label more, or with another value, or without it if the value is null. Null
    /// stands for no labels.
    /// </summary>
    public static LabelSet? With(LabelSet? from, string name, string? value)
    {
        name = Cut(name, NameMax);
        value = value == null ? null : Cut(value, ValueMax);
        if (Known.TryGetValue((from, name, value), out var set))
            return set;
        set = Make(from, name, value);
        if (count < SetsMax && Known.TryAdd((from, name, value), set))
            Interlocked.Increment(ref count);
        return set;
    }

    static LabelSet? Make(LabelSet? from, string name, string? value)
    {
        var labels = from == null
            ? new SortedDictionary<string, string>(StringComparer.Ordinal)
            : new SortedDictionary<string, string>(from.labels, StringComparer.Ordinal);
        if (value == null)
            labels.Remove(name);
        else if (labels.Count < LabelsMax || labels.ContainsKey(name))
            labels[name] = value;
        if (labels.Count == 0)
            return null;
        return new LabelSet(labels);
    }

    /// <summary>Not longer than that, and without NUL, which ends a text for the agent.</summary>
    static string Cut(string text, int length)
    {
        var end = text.IndexOf('\0');
        length = Math.Min(length, end < 0 ? text.Length : end);
        return length == text.Length ? text : text.Substring(0, length);
    }
}
