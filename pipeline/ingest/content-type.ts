// Parses the content type of a publish into the media type of its message, or finds it by the payload.

import { hasSenmlRoot } from '../../transformers/root.ts'

/** The media types that transformers can decode; the envelope has them without parameters. */
export const mediaTypes = ['application/senml+json', 'application/senml+cbor', 'application/json'] as const
export type MediaType = (typeof mediaTypes)[number]

const parameter = /;\s*([^\s=;]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;"]*)\s*/gy

/**
 * The media type of a Content-Type header (RFC 9110 §8.3.1), lower case and without parameters. Parameters are allowed, but a
 * `charset` must be UTF-8, the only one for SenML (RFC 8428 §5) and for JSON between systems (RFC 8259 §8.1).
 *
 * @param types that are supported
 * @returns undefined for another one
 */
export function mediaTypeOf(header: string | undefined): MediaType | undefined
export function mediaTypeOf<Type extends string>(header: string | undefined, types: readonly Type[]): Type | undefined
export function mediaTypeOf(header: string | undefined, types: readonly string[] = mediaTypes): string | undefined {
  if (header === undefined) return undefined
  const end = header.indexOf(';')
  const essence = (end === -1 ? header : header.slice(0, end)).trim().toLowerCase()
  const mediaType = types.find(known => known === essence)
  if (mediaType === undefined || end === -1) return mediaType
  return parametersAreFine(header, end) ? mediaType : undefined
}

/** What a payload without a content type is read as: CBOR if it begins like an array of it, which no text does, else SenML or JSON by its root. */
export function mediaTypeOfPayload(payload: Uint8Array): MediaType {
  // RFC 8949 §3.1: the heads of arrays with at most 2^32 items, and of those without a length.
  const head = payload[0] ?? 0
  if ((head >= 0x80 && head <= 0x9a) || head === 0x9f) return 'application/senml+cbor'
  return hasSenmlRoot(payload) ? 'application/senml+json' : 'application/json'
}

function parametersAreFine(header: string, start: number): boolean {
  parameter.lastIndex = start
  while (parameter.lastIndex < header.length) {
    const match = parameter.exec(header)
    if (match === null) return /^[;\s]*$/.test(header.slice(start))
    start = parameter.lastIndex
    const [, name = '', value = ''] = match
    if (name.toLowerCase() === 'charset' && !/^"?utf-?8"?$/i.test(value)) return false
  }
  return true
}
