// The section `internal`: the listener for ingest and readers, and the credentials that it requires.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../../config/options/options.ts'
import { isLoopback, listenAddressOption, parseListenAddress } from '../../http/listen-address.ts'

/** A secret that is sent in a header: visible ASCII without spaces, and without commas, which separate several. */
const serviceToken = '[!-+\\--~]{16,1024}'

export const serviceTokenOption = {
  pattern: `^${serviceToken}(,${serviceToken})*$`,
  secret: true,
  environment: 'SVC_CONTROL_TOKEN',
  allowed: 'at least 16 visible ASCII characters without spaces and commas; several separated by commas, to replace one',
} as const

export const internalOptions = Type.Object({
  listen: listenAddressOption(
    '127.0.0.1:9080',
    'Address for other processes, and for metrics. Beyond loopback it needs a token or mutual TLS.',
  ),
  token: Type.Optional(
    Type.String({
      ...serviceTokenOption,
      description: 'Token that the other processes send (their `control.token`); of several, any is accepted.',
    }),
  ),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Certificate of this listener, as PEM: makes it HTTPS.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  caFile: Type.Optional(
    Type.String({
      minLength: 1,
      description: "Authority, as PEM, that must have signed a client's certificate (mutual TLS).",
    }),
  ),
})
export type InternalOptions = Static<typeof internalOptions>

/** Faults between options that are each valid on their own. */
export function internalFaults({ listen, token, certFile, keyFile, caFile }: InternalOptions): OptionFault[] {
  const faults: OptionFault[] = []
  let host: string | undefined
  try {
    ;({ host } = parseListenAddress(listen))
  } catch (error) {
    faults.push({ place: 'internal.listen', problem: (error as RangeError).message })
  }
  if (host !== undefined && !isLoopback(host) && token === undefined && caFile === undefined) {
    faults.push({
      place: 'internal.listen',
      problem: `${listen} is reachable from other machines without a credential: set SVC_CONTROL_TOKEN to the same secret here and for its clients, or internal.cert_file, key_file and ca_file (mutual TLS), or listen on 127.0.0.1`,
    })
  }
  if ((certFile === undefined) !== (keyFile === undefined)) {
    faults.push({ place: 'internal.cert_file', problem: 'internal.cert_file and internal.key_file belong together: set both or neither' })
  }
  if (caFile !== undefined && certFile === undefined) {
    faults.push({
      place: 'internal.ca_file',
      problem: 'client certificates need TLS: also set internal.cert_file and internal.key_file',
    })
  }
  return faults
}
