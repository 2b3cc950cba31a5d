// Writes the metadata of an assembly as the text that the tests of this crate read, one row a line.
// `dump.dll ASSEMBLY`; roslyn.txt is what it says of tests/apps/names (compiled with Roslyn 4.8,
// optimised) with the lines of `NAMES_TOKENS=1 names.dll 1` as `case TOKEN DESCRIPTION` after it;
// mcs.txt is what it says of mcs.cs (compiled with mcs 6.8).

using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Reflection.Metadata;
using System.Reflection.Metadata.Ecma335;
using System.Reflection.PortableExecutable;

using var file = new PEReader(File.OpenRead(args[0]));
var reader = file.GetMetadataReader();

foreach (var handle in reader.TypeReferences)
{
    var row = reader.GetTypeReference(handle);
    var scope = row.ResolutionScope.Kind == HandleKind.TypeReference ? Token(row.ResolutionScope) : "-";
    Console.WriteLine($"typeref {Token(handle)} {scope} {Name(row.Namespace, row.Name)}");
}
foreach (var handle in reader.TypeDefinitions)
{
    var row = reader.GetTypeDefinition(handle);
    Console.WriteLine($"typedef {Token(handle)} {Token(row.GetDeclaringType())} {Name(row.Namespace, row.Name)}");
    Generics(handle, row.GetGenericParameters());
    foreach (var method in row.GetMethods()) Method(handle, method);
}
for (int row = 1; row <= reader.GetTableRowCount(TableIndex.TypeSpec); row++)
{
    var handle = MetadataTokens.TypeSpecificationHandle(row);
    Console.WriteLine($"typespec {Token(handle)} {Blob(reader.GetTypeSpecification(handle).Signature)}");
}

void Method(EntityHandle type, MethodDefinitionHandle handle)
{
    var row = reader.GetMethodDefinition(handle);
    char isStatic = row.Attributes.HasFlag(MethodAttributes.Static) ? 's' : 'i';
    char isSpecial = row.Attributes.HasFlag(MethodAttributes.SpecialName) ? 'n' : '-';
    Console.WriteLine($"method {Token(handle)} {Token(type)} {isStatic}{isSpecial} {Blob(row.Signature)} {reader.GetString(row.Name)}");
    Generics(handle, row.GetGenericParameters());
    foreach (var parameter in row.GetParameters().Select(reader.GetParameter))
    {
        var direction = parameter.Attributes & (ParameterAttributes.In | ParameterAttributes.Out);
        if (direction is ParameterAttributes.In or ParameterAttributes.Out)
            Console.WriteLine($"direction {Token(handle)} {parameter.SequenceNumber} {direction.ToString().ToLower()}");
    }
    foreach (var attribute in row.GetCustomAttributes().Select(reader.GetCustomAttribute))
    {
        if (attribute.Constructor.Kind != HandleKind.MemberReference) continue;
        var parent = reader.GetMemberReference((MemberReferenceHandle)attribute.Constructor).Parent;
        if (parent.Kind != HandleKind.TypeReference) continue;
        var attributeType = reader.GetTypeReference((TypeReferenceHandle)parent);
        var name = Name(attributeType.Namespace, attributeType.Name);
        if (name.EndsWith("StateMachineAttribute"))
            Console.WriteLine($"attribute {Token(handle)} {name} {Blob(attribute.Value)}");
    }
}

void Generics(EntityHandle owner, IEnumerable<GenericParameterHandle> parameters)
{
    var names = parameters.Select(handle => reader.GetString(reader.GetGenericParameter(handle).Name)).ToList();
    if (names.Count > 0) Console.WriteLine($"generics {Token(owner)} {string.Join(",", names)}");
}

string Token(EntityHandle handle) => handle.IsNil ? "-" : MetadataTokens.GetToken(handle).ToString("x8");
string Blob(BlobHandle handle) => Convert.ToHexString(reader.GetBlobBytes(handle)).ToLower();
string Name(StringHandle space, StringHandle name) =>
    space.IsNil ? reader.GetString(name) : reader.GetString(space) + "." + reader.GetString(name);
