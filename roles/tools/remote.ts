// A running `sluice up` as the tools see it: the same questions, over HTTP, with the token of an administrator.

import { ToolError } from '../../bin/streams.ts'
import type { TraceReport } from '../../pipeline/audit/trace.ts'
import type { VerifyReport } from '../../pipeline/audit/verify.ts'
import type { FullLetter, Letter, Letters, Selection, Settlement } from '../../pipeline/letters/letters.ts'

export interface Remote {
  readonly letters: Letters
  verify(): Promise<VerifyReport>
  trace(id: string): Promise<TraceReport>
}

/** @throws ToolError for a URL or a token that cannot be; asking throws it for whatever is refused */
export function openRemote(url: string, token: string | undefined): Remote {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) throw new ToolError(`--url ${JSON.stringify(url)} is none: give http://host:port`)
  if (token === undefined || !/^[\x21-\x7e]+$/.test(token)) {
    throw new ToolError('--url needs the token of an administrator: give it with --token, or as SVC_TOKEN (POST /tokens makes one)')
  }
  const base = url.replace(/\/+$/, '')

  async function ask<Answer>(method: 'GET' | 'POST', path: string, body?: object): Promise<Answer> {
    let response: Response
    try {
      response = await fetch(base + path, {
        method,
        headers: { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
    } catch (error) {
      const { cause } = error as { cause?: unknown }
      throw new ToolError(
        `${base} cannot be reached (${cause instanceof Error ? cause.message : String(error)}): is \`sluice up\` running there?`,
        {
          cause: error,
        },
      )
    }
    if (response.ok) return (await response.json()) as Answer
    throw new ToolError(await refusal(response))
  }

  const letters: Letters = {
    list: ({ rule, channel, all, ids }, limit) => {
      if (ids !== undefined) throw new Error('letters are listed by rule and channel')
      const query = new URLSearchParams({ limit: String(limit) })
      if (rule !== undefined) query.set('rule', rule)
      if (channel !== undefined) query.set('channel', channel)
      if (all === true) query.set('all', 'true')
      return ask<{ letters: Letter[]; total: number }>('GET', `/admin/dead-letters?${query.toString()}`)
    },
    async show(id) {
      const { letters } = await ask<{ letters: FullLetter[] }>('GET', `/admin/dead-letters/${encodeURIComponent(id)}`)
      return letters
    },
    replay: selection => ask<Settlement>('POST', '/admin/dead-letters/replay', bodyOf(selection)),
    drop: selection => ask<Settlement>('POST', '/admin/dead-letters/drop', bodyOf(selection)),
  }

  return {
    letters,
    verify: () => ask<VerifyReport>('GET', '/admin/verify'),
    trace: id => ask<TraceReport>('GET', `/admin/messages/${encodeURIComponent(id)}/trace`),
  }
}

/** There, `all` stands for nothing else being said. */
function bodyOf({ ids, rule, channel }: Selection): object {
  if (ids === undefined && rule === undefined && channel === undefined) return { all: true }
  return { ids, rule, channel }
}

async function refusal(response: Response): Promise<string> {
  const said = (await response.json().catch(() => ({}))) as { detail?: string; error?: string }
  if (response.status === 403) return "this token is not an administrator's: get that of one with POST /tokens"
  return `${said.detail ?? said.error ?? 'the platform refused'} (${response.status})`
}
