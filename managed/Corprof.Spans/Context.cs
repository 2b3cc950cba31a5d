namespace Corprof.Spans;

/// <summary>
/// What a flow of execution works for: a span, a request, labels. Never changed once it is made,
/// since all flows that come from one share it.
/// </summary>
sealed class Context
{
    // A flow that enters spans and never leaves them would otherwise keep all of them.
    const int DepthMax = 64;

    /// <summary>The span.</summary>
    public readonly SpanIds Span;

    /// <summary>The id of the span that the request began with, as a number; 0 for none.</summary>
    public readonly ulong LocalRoot;

    /// <summary>The agent's number for the labels; 0 for none.</summary>
    public readonly ulong LabelsNumber;

    /// <summary>The request; null outside of any.</summary>
    public readonly Request? Request;

    /// <summary>The labels; null for none.</summary>
    public readonly LabelSet? Labels;

    /// <summary>
    /// The Activity that the span is; null for none. No field is of that type, so that this class
    /// can be loaded where there is no such assembly.
    /// </summary>
    public readonly object? Activity;

    /// <summary>The context that this one was entered from, if that is still of use.</summary>
    public readonly Context? Outer;

    readonly int depth;

    Context(SpanIds span, Request? request, LabelSet? labels, object? activity, Context? outer)
    {
        Span = span;
        Request = request;
        LocalRoot = request?.Id ?? 0;
        Labels = labels;
        LabelsNumber = labels?.Number ?? 0;
        Activity = activity;
        Outer = outer;
        depth = outer == null ? 0 : outer.depth + 1;
    }

    /// <summary>The context to remember when another one is entered from it.</summary>
    public static Context? Remembered(Context? from) => from?.depth < DepthMax ? from : null;

    /// <summary>A span within a request, entered from another context.</summary>
    public static Context Enter(Context? from, SpanIds span, Request request, object? activity) =>
        new(span, request, from?.Labels, activity, Remembered(from));

    /// <summary>No span, for as long as the program hides the one that there is.</summary>
    public static Context WithoutSpan(Context from) =>
        new(default, null, from.Labels, null, Remembered(from));

    /// <summary>The same with other labels; null if nothing is left.</summary>
    public static Context? With(Context? from, LabelSet? labels)
    {
        if (ReferenceEquals(from?.Labels, labels))
            return from;
        if (from == null)
            return new Context(default, null, labels, null, null);
        if (labels == null && from.Request == null && from.Outer == null)
            return null;
        return new Context(from.Span, from.Request, labels, from.Activity, from.Outer);
    }
}
