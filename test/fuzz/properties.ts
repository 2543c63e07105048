// The properties of an input, by where it is used.

import { openJsonDocuments } from '../../transformers/json/documents.ts'
import { openSenmlCbor } from '../../transformers/senml/cbor/cbor.ts'
import { openSenmlJson } from '../../transformers/senml/json.ts'
import { resolvedVersionOfCbor, resolvedVersionOfJson } from '../../transformers/senml/resolved-version.ts'
import { timeFields } from './inputs/documents.ts'
import type { Target } from './kind.ts'
import { asParsed, asWritten } from './properties/documents.ts'
import { anyFieldsComeBack, anyJsonComesBack, documentsComeBack } from './properties/flattening.ts'
import { refusals } from './properties/refusals.ts'
import { resolvesToItself } from './properties/resolved.ts'
import { rightDocuments, rightPacksOfCbor, rightPacksOfJson } from './properties/right.ts'
import { readByRoot } from './properties/root.ts'
import { storableRecords } from './properties/rows.ts'
import { timesAreExact } from './properties/times.ts'
import { bothWays } from './properties/ways.ts'
import { cborAsJson, jsonAsCbor } from './properties/wire-formats.ts'
import type { Property } from './property.ts'

/** So that the longest inputs are decoded too, and not refused for their size. */
const payloadBytesMax = 2 ** 26

/** Opens the properties. Each has a batch, which it reuses for every input. */
export function openProperties(): Readonly<Record<Target, readonly Property[]>> {
  const openJson = () => openJsonDocuments({ timeFields, payloadBytesMax })
  const openPlainJson = () => openJsonDocuments({ payloadBytesMax })
  const senmlJson = [
    refusals(openSenmlJson, rightPacksOfJson),
    storableRecords(openSenmlJson()),
    bothWays(openSenmlJson()),
    readByRoot(payloadBytesMax),
    jsonAsCbor(openSenmlJson(), openSenmlCbor()),
    resolvesToItself(openSenmlJson(), resolvedVersionOfJson, openSenmlJson()),
  ]
  const senmlCbor = [
    refusals(openSenmlCbor, rightPacksOfCbor),
    storableRecords(openSenmlCbor()),
    cborAsJson(openSenmlJson(), openSenmlCbor()),
    resolvesToItself(openSenmlCbor(), resolvedVersionOfCbor, openSenmlJson()),
  ]
  const json = [
    refusals(openJson, rightDocuments),
    asParsed(openJson()),
    timesAreExact(openJson()),
    asWritten(openPlainJson()),
    documentsComeBack(openPlainJson()),
    readByRoot(payloadBytesMax),
  ]
  return {
    any: [...senmlJson, ...senmlCbor, ...json],
    'senml-json': senmlJson,
    'senml-cbor': senmlCbor,
    json,
    flatten: [anyJsonComesBack],
    unflatten: [anyFieldsComeBack],
  }
}
