// One mapping sent to a platform: what its answers mean, and what is tried again.

import { type Dispatcher, request } from 'undici'
import { ToolError } from '../../bin/streams.ts'
import type { Device } from './fleet.ts'
import type { ReportLine } from './fleet-report.ts'
import { short } from './text.ts'

/** A mapping is a transaction and, with certificates, some keys to make. */
const answerMsMax = 60_000
const attemptsMax = 8
const waitMsFirst = 500
const waitMsMax = 30_000
/** Longer than a platform should ask for. */
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
/** 429 may be of one device alone; the others say that the platform is not there. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504])

export interface MappingTarget {
  /** Of the platform, without a slash at its end. */
  readonly base: string
  /** Of a user, or an API key; undefined where the platform has credentials of its own. */
  readonly token: string | undefined
  readonly dryRun: boolean
  /** Resolves after so many milliseconds. */
  readonly wait: (ms: number) => Promise<void>
}

/**
 * Maps one device. What passes (429, 502, 503, 504, a broken connection) is tried again, after what `Retry-After` says.
 *
 * @throws ToolError for what no device of the fleet would fare better with: no rights, no such endpoint, a platform that stays away
 */
export async function sendMapping({ base, token, dryRun, wait }: MappingTarget, device: Device): Promise<ReportLine> {
  const { externalId, externalKey, name } = device
  const body = JSON.stringify({ external_id: externalId, external_key: externalKey, ...(name === undefined ? {} : { name }) })
  const line = (rest: Omit<ReportLine, 'externalId'>): ReportLine => ({ externalId, ...rest })
  for (let attempt = 1; ; attempt++) {
    const answer = await answered(`${base}/mapping${dryRun ? '?dry_run=true' : ''}`, body, token)
    if ('status' in answer && !passing.has(answer.status)) {
      const outcome = outcomes[answer.status]
      if (outcome === 'created' || outcome === 'present')
        return line(dryRun ? { outcome: 'valid' } : { outcome, things: thingsOf(base, answer.said) })
      if ([401, 403, 404, 405].includes(answer.status))
        throw new ToolError(`${refusals[answer.status]} (${base}/mapping: ${wordsOf(answer)})`)
      return line({ outcome: outcome ?? 'failed', error: wordsOf(answer) })
    }
    if (attempt === attemptsMax) {
      if ('status' in answer && answer.status === 429) return line({ outcome: 'failed', error: wordsOf(answer) })
      const reason = 'status' in answer ? wordsOf(answer) : answer.broken
      throw new ToolError(`${base} does not answer (${reason}): give the same command again once it does, and it goes on where it was`)
    }
    await wait(
      ('status' in answer ? answer.retryAfterMs : undefined) ??
        Math.min(waitMsFirst * 2 ** (attempt - 1), waitMsMax) * (0.5 + Math.random() / 2),
    )
  }
}

const refusals: Readonly<Record<number, string>> = {
  401: 'the platform does not know this token: give that of a user, or an API key, with --token or as SVC_TOKEN',
  403: 'this user may not make mappings',
  404: 'there is no provisioning service at this address: look at --url',
  405: 'there is no provisioning service at this address: look at --url',
}

type Answer = { readonly status: number; readonly said: unknown; readonly retryAfterMs?: number } | { readonly broken: string }

async function answered(url: string, body: string, token: string | undefined): Promise<Answer> {
  let response: Dispatcher.ResponseData
  try {
    response = await request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
      body,
      headersTimeout: answerMsMax,
      bodyTimeout: answerMsMax,
    })
    const text = await response.body.text()
    const retryAfterMs = retryAfterOf(response.headers['retry-after'])
    return { status: response.statusCode, said: jsonOf(text), ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
  } catch (error) {
    return { broken: error instanceof Error ? error.message : String(error) }
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // A proxy's page: the status says enough.
    return undefined
  }
}

/** RFC 9110 §10.2.3: seconds, or a date. */
function retryAfterOf(header: string | string[] | undefined): number | undefined {
  if (typeof header !== 'string') return undefined
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(0, seconds), retryAfterSecondsMax) * 1000
}

/** @throws ToolError where the answer is that of something else */
function thingsOf(base: string, said: unknown): NonNullable<ReportLine['things']> {
  const { things } = (said ?? {}) as { things?: unknown }
  const isThing = (thing: unknown): boolean =>
    typeof (thing as { id?: unknown } | null)?.id === 'string' && typeof (thing as { key?: unknown }).key === 'string'
  if (!Array.isArray(things) || !things.every(isThing))
    throw new ToolError(`what answers at ${base}/mapping is no provisioning service: look at --url`)
  return things as NonNullable<ReportLine['things']>
}

function wordsOf({ status, said }: Extract<Answer, { status: number }>): string {
  const { detail, error } = (said ?? {}) as { detail?: unknown; error?: unknown }
  const words = [detail, error].find(text => typeof text === 'string' && text !== '')
  return short(`${words === undefined ? '' : `${words as string} `}(${status})`, errorCharactersMax)
}
