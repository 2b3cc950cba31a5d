using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;

namespace Corprof.TestApps;

/// <summary>
/// The facts that a program measured about itself. Its own few lines instead of a JSON library,
/// whose start-up would be a good part of a short program's profile.
/// </summary>
sealed class Truth
{
    readonly List<string> members = new();

    public Truth Add(string name, long value) =>
        AddRaw(name, value.ToString(CultureInfo.InvariantCulture));

    public Truth Add(string name, string value) => AddRaw(name, Quote(value));

    public Truth Add(string name, Truth value) => AddRaw(name, value.ToString());

    public Truth Add(string name, IEnumerable<Truth> values) =>
        AddRaw(name, "[" + string.Join(",", values) + "]");

    /// <summary>Prints the last line of the program.</summary>
    public void Tell() => Console.WriteLine("TRUTH " + this);

    public override string ToString() => "{" + string.Join(",", members) + "}";

    Truth AddRaw(string name, string json)
    {
        members.Add(Quote(name) + ":" + json);
        return this;
    }

    static string Quote(string text)
    {
        var json = new StringBuilder("\"");
        foreach (var c in text)
        {
            if (c is '"' or '\\')
                json.Append('\\');
            json.Append(c < ' ' ? ' ' : c);
        }
        return json.Append('"').ToString();
    }
}
