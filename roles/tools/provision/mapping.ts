// Sends one mapping to a platform, interprets the response, and retries.

import { randomBytes } from 'node:crypto'
import { request } from 'undici'
import { ToolError } from '../../../bin/streams.ts'
import { short } from '../text.ts'
import type { Device } from './fleet.ts'
import type { ReportLine } from './fleet-report.ts'

/** A mapping takes a transaction and, with certificates, generating keys. */
const answerMsMax = 60_000
const attemptsMax = 8
const waitMsFirst = 500
const waitMsMax = 30_000
/** Longer than any Retry-After that a platform should send. */
const retryAfterSecondsMax = 600
const errorCharactersMax = 300

const outcomes: Readonly<Record<number, ReportLine['outcome']>> = {
  201: 'created',
  200: 'present',
  409: 'conflict',
  400: 'refused',
  413: 'refused',
  422: 'refused',
}
/** Status for a connection that failed or broke. */
const broken = 0
/** Statuses that are retried. 429 may concern a single device; the others mean that the platform is away. */
const passing: ReadonlySet<number> = new Set([broken, 429, 502, 503, 504])

export interface MappingTarget {
  /** The platform's address, without a trailing slash. */
  readonly base: string
  /** Token of a user, or an API key; undefined if the platform has its own credentials for mappings. */
  readonly token: string | undefined
  readonly dryRun: boolean
  /** Resolves after `ms` milliseconds. */
  readonly wait: (ms: number) => Promise<void>
}

/**
 * Asks with a dry run for the things whose private keys the platform shows once, when it creates a mapping. Uses a random device, because mappings of the
 * fleet may exist already.
 *
 * @returns their names; none if the platform does not report them
 * @throws ToolError like `sendMapping`
 */
export async function namesOfKeysShownOnce(target: MappingTarget): Promise<readonly string[]> {
  // As long as a platform may require.
  const [externalId, externalKey] = [randomBytes(64).toString('hex'), randomBytes(128).toString('hex')]
  const { keysShownOnce = [] } = await sendMapping({ ...target, dryRun: true }, { externalId, externalKey, line: 0 })
  return keysShownOnce
}

/**
 * Maps one device. Temporary failures (429, 502, 503, 504, a broken connection) are retried, after the time in `Retry-After` if there is one.
 *
 * @throws ToolError for an error that concerns the whole fleet: missing rights, no such endpoint, a platform that stays away
 */
export async function sendMapping({ base, token, dryRun, wait }: MappingTarget, device: Device): Promise<ReportLine> {
  const { externalId, externalKey, name } = device
  const body = JSON.stringify({ external_id: externalId, external_key: externalKey, name })
  const url = `${base}/mapping${dryRun ? '?dry_run=true' : ''}`
  for (let attempt = 1; ; attempt++) {
    const answer = await answerTo(url, body, token)
    const { status } = answer
    if (passing.has(status) && attempt < attemptsMax) {
      const backoffMs = Math.min(waitMsFirst * 2 ** (attempt - 1), waitMsMax) * (0.5 + Math.random() / 2)
      // At least the backoff: when many wait, few succeed after the first second.
      await wait(Math.max(answer.retryAfterMs ?? 0, backoffMs))
      continue
    }
    const outcome = outcomes[status] ?? 'failed'
    const error = wordsOf(answer)
    if (outcome === 'created' || outcome === 'present') {
      const things = thingsOf(base, answer.said, dryRun)
      const { keys_shown_once: keysShownOnce, ...certificates } = answer.said as Certified
      return dryRun
        ? { externalId, outcome: 'valid', keysShownOnce }
        : { externalId, outcome, things, certificates: certificatesOf(things, certificates) }
    }
    if (Object.hasOwn(refusals, status)) throw new ToolError(`${refusals[status]} (${url}: ${error})`)
    if (passing.has(status) && status !== 429)
      throw new ToolError(`${base} does not answer (${error}): repeat the command when it does; it then resumes where it stopped`)
    return { externalId, outcome, error }
  }
}

const refusals: Readonly<Record<number, string>> = {
  401: 'the platform rejects this token: give the token of a user, or an API key, with --token or SVC_TOKEN',
  403: 'this user, or this API key, is not allowed to create mappings',
  404: 'there is no provisioning service at this address: check --url',
  405: 'there is no provisioning service at this address: check --url',
}

interface Answer {
  /** `broken` if there was no response. */
  readonly status: number
  readonly said: unknown
  readonly retryAfterMs?: number | undefined
}

async function answerTo(url: string, body: string, token: string | undefined): Promise<Answer> {
  try {
    const response = await request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
      body,
      headersTimeout: answerMsMax,
      bodyTimeout: answerMsMax,
    })
    const said = jsonOf(await response.body.text())
    return { status: response.statusCode, said, retryAfterMs: retryAfterOf(response.headers['retry-after']) }
  } catch (error) {
    return { status: broken, said: { error: error instanceof Error ? error.message : String(error) } }
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // A proxy's error page: the status is enough.
    return undefined
  }
}

/** RFC 9110 §10.2.3: seconds, or a date. */
function retryAfterOf(header: string | string[] | undefined): number | undefined {
  if (typeof header !== 'string') return undefined
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(0, seconds), retryAfterSecondsMax) * 1000
}

/** @throws ToolError if another kind of server answered */
function thingsOf(base: string, said: unknown, dryRun: boolean): NonNullable<ReportLine['things']> {
  const { things } = (said ?? {}) as { things?: unknown }
  // A dry run creates no ids and keys.
  const isThing = (thing: unknown): boolean =>
    (dryRun && typeof thing === 'object' && thing !== null) ||
    (typeof (thing as { id?: unknown } | null)?.id === 'string' && typeof (thing as { key?: unknown }).key === 'string')
  if (!Array.isArray(things) || !things.every(isThing))
    throw new ToolError(`the server at ${base}/mapping is not a provisioning service: check --url`)
  return things as NonNullable<ReportLine['things']>
}

interface Certified {
  readonly keys_shown_once?: readonly string[]
  readonly client_cert?: Readonly<Record<string, string>>
  /** Only in the first response. */
  readonly client_key?: Readonly<Record<string, string>>
}

function certificatesOf(
  things: NonNullable<ReportLine['things']>,
  { client_cert: certs = {}, client_key: keys = {} }: Certified,
): NonNullable<ReportLine['certificates']> {
  const certified = things.filter(({ id }) => keys[id] !== undefined)
  return Object.fromEntries(certified.map(({ id }) => [id, { client_cert: certs[id], client_key: keys[id] }]))
}

function wordsOf({ status, said }: Answer): string {
  const { detail, error } = (said ?? {}) as { detail?: unknown; error?: unknown }
  const words = [detail, error].find(text => typeof text === 'string' && text !== '') as string | undefined
  return short([...(words === undefined ? [] : [words]), ...(status === broken ? [] : [`(${status})`])].join(' '), errorCharactersMax)
}
