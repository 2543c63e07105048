// Conditional changes and reads: ETag, If-Match and If-None-Match (RFC 9110 §8.8.3, §13.1).

import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { HttpError } from '../http/errors.ts'

/** The versions that a change applies to; undefined for any. In SQL: `$n::int4[] IS NULL OR version = ANY($n)`. */
export type Versions = readonly number[] | undefined

/** The result of a change. */
export type WriteOutcome = { readonly version: number } | Unchanged
export type Unchanged = 'absent' | 'changed-since'

export const eTagHeader = { ETag: 'The version, for If-Match.' }
/** The headers of a change. */
export const ifMatchHeaders = Type.Object({
  'if-match': Type.Optional(
    Type.String({
      description: 'Change only this version: an `ETag` of an earlier answer, or several separated by commas.',
      examples: ['"3"'],
    }),
  ),
})
export const eTagOf = (version: number): string => `"${version}"`

/** The versions that a request wants to change; undefined for any. Tags are compared strongly, so a weak one never matches. */
export function expectedVersions(request: FastifyRequest): Versions {
  const header = request.headers['if-match']
  if (header === undefined || header.trim() === '*') return undefined
  return header
    .split(',')
    .flatMap(tag => /^"(\d{1,9})"$/.exec(tag.trim())?.[1] ?? [])
    .map(Number)
}

/**
 * @param row that was changed; undefined if none was
 * @param exists called only then
 */
export async function outcomeOf(row: { readonly version: number } | undefined, exists: () => Promise<boolean>): Promise<WriteOutcome> {
  if (row !== undefined) return { version: row.version }
  return (await exists()) ? 'changed-since' : 'absent'
}

/**
 * @param refusal for an entity that was deleted after the rights were checked
 * @throws HttpError if nothing was changed: that refusal, or `precondition_failed`
 */
export async function writtenOrThrow<Outcome extends object>(
  outcome: Outcome | Unchanged,
  refusal: () => Promise<HttpError>,
): Promise<Outcome> {
  if (outcome === 'absent') throw await refusal()
  if (outcome !== 'changed-since') return outcome
  throw new HttpError('precondition_failed', 'it has changed since it was read: read it again, and repeat the change with the new ETag')
}

/** The error codes of a change to one entity. */
export const writeCodes = ['unauthenticated', 'forbidden', 'not_found', 'precondition_failed'] as const
