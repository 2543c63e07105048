// The section `internal`: where the control plane answers ingest and readers, and who may ask.

import { type Static, Type } from 'typebox'
import { isLoopback, listenAddressOption, parseListenAddress } from '../../config/http/listen-address.ts'
import type { OptionFault } from '../../config/options.ts'

/** A secret that stands in a header: visible ASCII without spaces, and without the commas between several. */
const serviceToken = '[!-+\\--~]{16,1024}'

export const serviceTokenOption = {
  pattern: `^${serviceToken}(,${serviceToken})*$`,
  secret: true,
  environment: 'SVC_CONTROL_TOKEN',
  allowed: 'at least 16 visible ASCII characters without spaces and commas; several divided by commas, to replace one',
} as const

export const internalOptions = Type.Object({
  listen: listenAddressOption(
    '127.0.0.1:9080',
    'Address for the other processes of the platform, with /metrics. Beyond loopback it needs a token or mutual TLS.',
  ),
  token: Type.Optional(
    Type.String({
      ...serviceTokenOption,
      description: 'What the other processes show, any one of them; the same on both sides. Without one none is asked for.',
    }),
  ),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Certificate of this listener, as PEM: makes it HTTPS.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  caFile: Type.Optional(
    Type.String({ minLength: 1, description: 'Authority, as PEM, whose certificate a client must show (mutual TLS).' }),
  ),
})
export type InternalOptions = Static<typeof internalOptions>

/** What is right by itself and wrong together. */
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
      problem: `other machines reach ${listen}, and nobody who asks there would have to show anything: set SVC_CONTROL_TOKEN to the same secret here and for those who ask, or internal.cert_file, key_file and ca_file (mutual TLS), or listen on 127.0.0.1`,
    })
  }
  if ((certFile === undefined) !== (keyFile === undefined)) {
    faults.push({ place: 'internal.cert_file', problem: 'a certificate needs its key, and a key its certificate: give both or none' })
  }
  if (caFile !== undefined && certFile === undefined) {
    faults.push({
      place: 'internal.ca_file',
      problem: 'clients show certificates over TLS only: give internal.cert_file and internal.key_file, too',
    })
  }
  return faults
}
