// Options that sinks share: limits of formats, the retention of channels and formats, and the user and password of a store's client, completed by its URL.

import { type TArray, type TInteger, type TOptional, type TString, Type } from 'typebox'
import { keptDaysOf, type RetentionOptions } from './erasure.ts'

/** The options of every sink that limit its number of formats. */
export const formatOptions: { readonly formatsMax: TInteger; readonly formatsPerChannelMax: TInteger } = {
  formatsMax: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 100_000,
    description: 'Most JSON formats in the store, each a table; a further one is a dead letter (`format-limit`).',
  }),
  formatsPerChannelMax: Type.Integer({
    default: 32,
    minimum: 1,
    maximum: 100_000,
    description: 'Most JSON formats that one channel may add.',
  }),
}

const listedMax = 100

function keptDays(what: string, example: string, more = ''): TOptional<TArray<TString>> {
  const entry = Type.String({ pattern: '^.+:[1-9]\\d{0,4}$', allowed: `\`<${what}>:<days>\` with 1 to 99999 days` })
  return Type.Optional(
    Type.Array(entry, {
      maxItems: listedMax,
      examples: [[example]],
      description: `Days of messages of a ${what} to keep besides the current one, if shorter than the store's, as \`<${what}>:<days>\`; at most ${listedMax}.${more}`,
    }),
  )
}

/** The options of every sink for a shorter retention than the store's. */
export const retentionOptions: {
  readonly retentionChannels: TOptional<TArray<TString>>
  readonly retentionFormats: TOptional<TArray<TString>>
} = {
  retentionChannels: keptDays('channel', '6c3f8f0e-5b1a-4d5f-9a51-0c7a2d3b4e5f:30'),
  retentionFormats: keptDays('format', 'events:7', ' The format of SenML is `messages`.'),
}

/** A longer time than the store's would be without effect. A month is taken for 31 days. */
export function retentionFaults(options: RetentionOptions): { place: string; problem: string }[] {
  const { retentionDays = 0, retentionMonths = 0 } = options
  const storeDays = retentionMonths === 0 ? retentionDays : retentionMonths * 31
  const store = retentionMonths === 0 ? `store.retention_days is ${retentionDays}` : `store.retention_months is ${retentionMonths}`
  const known = new Set<string>()
  return keptDaysOf(options).flatMap(({ channel, format, days }) => {
    const place = channel === undefined ? 'store.retention_formats' : 'store.retention_channels'
    const name = JSON.stringify(channel ?? format)
    const isTwice = known.has(place + name)
    known.add(place + name)
    const problem = `it keeps ${name} for ${days} days, but ${store}, after which all messages are deleted: give a shorter time, or raise that`
    return [
      ...(isTwice ? [{ place, problem: `it has ${name} twice: name it once` }] : []),
      ...(storeDays > 0 && days > storeDays ? [{ place, problem }] : []),
    ]
  })
}

export interface Login {
  readonly user?: string | undefined
  readonly password?: string | undefined
}

/** Options take precedence over the URL; the user may be in one and the password in the other. */
export function loginOf(options: Login, inUrl: Login): Login {
  return { user: options.user ?? inUrl.user, password: options.password ?? inUrl.password }
}

/**
 * Lists what is wrong with the user and password, by the option's name.
 *
 * @param isPasswordNeeded false where a user in the URL may log in with a certificate alone
 */
export function loginFaults(options: Login, inUrl: Login, isPasswordNeeded: boolean): { place: string; problem: string }[] {
  const { user, password } = loginOf(options, inUrl)
  if (password !== undefined && user === undefined) {
    return [{ place: 'store.password', problem: 'it has no user: set store.user (SVC_STORE_USER), or name the user in the URL' }]
  }
  if (user === undefined || password !== undefined || (options.user === undefined && !isPasswordNeeded)) return []
  const place = options.user === undefined ? 'store.url' : 'store.user'
  return [{ place, problem: 'its user has no password: set store.password (SVC_STORE_PASSWORD or SVC_STORE_PASSWORD_FILE)' }]
}
