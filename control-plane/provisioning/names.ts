// The names that a layout gives to things and channels, with what a request puts into them.

import { HttpError } from '../../http/errors.ts'
import { nameBytesMax } from '../entity.ts'

/** In names, and in the bootstrap content. */
export const placeholder = /\{\{\s*(.*?)\s*\}\}/gs
/** The placeholders that a name may have. */
export const requestWords: ReadonlySet<string> = new Set(['external_id', 'name'])

/** What a request gives names. */
export interface RequestNames {
  readonly externalId: string
  readonly name?: string | undefined
}

/** Whether the name holds that of the request. */
export const hasRequestName = (name: string): boolean => [...name.matchAll(placeholder)].some(([, word]) => word === 'name')

/**
 * The name of a thing or channel: with the external id and the name of the request, or the external id twice if it has none.
 *
 * @throws HttpError `malformed_request` if that is too long
 */
export function fillName(name: string, { externalId, name: requested = '' }: RequestNames): string {
  const filled = name.replace(placeholder, (_, word: string) => (word === 'name' && requested !== '' ? requested : externalId))
  if (Buffer.byteLength(filled) <= nameBytesMax) return filled
  const detail = `the name ${name.slice(0, 100)} of the layout would have more than ${nameBytesMax} bytes: use a shorter external id or name`
  throw new HttpError('malformed_request', detail)
}
