// Every kind of hostile input, by its name.

import { badTextCbor, badTextJson } from './inputs/bad-text.ts'
import { documentJson, documentsJson } from './inputs/documents.ts'
import { fieldsJson } from './inputs/fields.ts'
import { keysCbor, keysJson } from './inputs/keys.ts'
import { declaredLengths, indefiniteLengths } from './inputs/lengths.ts'
import { longTextBytes, longTextCbor, longTextJson } from './inputs/long-text.ts'
import { cborWords, cut, flipped, jsonWords, spliced } from './inputs/mutations.ts'
import { nestedCbor, nestedJson } from './inputs/nesting.ts'
import { numbersCbor, numbersJson } from './inputs/numbers.ts'
import { senmlCborPack } from './inputs/senml-cbor.ts'
import { senmlJsonPack } from './inputs/senml-json.ts'
import { timesJson } from './inputs/times.ts'
import type { Kind, Target } from './kind.ts'
import type { Random } from './random.ts'

type Make = (random: Random, bytes: number) => Uint8Array

/** One in this many mutated inputs is invalid to begin with: few, because that would hide the mutation. */
const oddOneIn = 40

const formats: readonly (readonly [target: Target, right: Make, words: readonly Uint8Array[]])[] = [
  ['senml-json', (random, bytes) => senmlJsonPack(random, bytes, oddOneIn), jsonWords],
  ['senml-cbor', (random, bytes) => senmlCborPack(random, bytes, oddOneIn), cborWords],
  ['json', documentsJson, jsonWords],
]

function kind(name: string, target: Target, make: Make): Kind {
  return { name, target, every: 1, bytes: undefined, make }
}

function longKind(name: string, target: Target, make: Make): Kind {
  return { name, target, every: 500, bytes: longTextBytes, make }
}

export const kinds: readonly Kind[] = [
  kind('bytes', 'any', (random, bytes) => random.bytes(random.below(bytes) + 1)),
  kind('senml-json-packs', 'senml-json', senmlJsonPack),
  kind('senml-cbor-packs', 'senml-cbor', senmlCborPack),
  kind('json-documents', 'json', documentsJson),
  ...formats.flatMap(([target, right, words]) => [
    kind(`${target}-flipped`, target, (random, bytes) => flipped(random, right(random, bytes))),
    kind(`${target}-cut`, target, (random, bytes) => cut(random, right(random, bytes))),
    kind(`${target}-spliced`, target, (random, bytes) => spliced(random, right(random, bytes), words).subarray(0, bytes)),
  ]),
  ...(['senml-json', 'json'] as const).flatMap(target => [
    kind(`${target}-nesting`, target, nestedJson),
    kind(`${target}-keys`, target, keysJson),
    kind(`${target}-bad-text`, target, badTextJson),
    kind(`${target}-numbers`, target, numbersJson),
    longKind(`${target}-long-text`, target, longTextJson),
  ]),
  kind('senml-cbor-nesting', 'senml-cbor', nestedCbor),
  kind('senml-cbor-lengths', 'senml-cbor', declaredLengths),
  kind('senml-cbor-indefinite', 'senml-cbor', indefiniteLengths),
  kind('senml-cbor-keys', 'senml-cbor', keysCbor),
  kind('senml-cbor-bad-text', 'senml-cbor', badTextCbor),
  kind('senml-cbor-numbers', 'senml-cbor', numbersCbor),
  longKind('senml-cbor-long-text', 'senml-cbor', longTextCbor),
  kind('json-times', 'json', timesJson),
  kind('flatten-documents', 'flatten', (random, bytes) => Buffer.from(documentJson(random, bytes))),
  kind('flatten-nesting', 'flatten', nestedJson),
  // Deep enough to overflow recursion in the engine.
  { name: 'flatten-levels', target: 'flatten', every: 40, bytes: 40_000, make: nestedJson },
  kind('flatten-keys', 'flatten', keysJson),
  kind('unflatten-fields', 'unflatten', fieldsJson),
]

/** The kinds whose names contain this; all for ''. */
export function kindsNamed(part: string): Kind[] {
  return kinds.filter(({ name }) => name.includes(part))
}
