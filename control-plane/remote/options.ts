// The section `control`: the address of the control plane, the credentials for it, and how long its grants are cached.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../../config/options/options.ts'
import { serviceTokenOption } from '../internal/options.ts'

export const controlOptions = Type.Object({
  url: Type.String({
    default: 'http://127.0.0.1:9080',
    minLength: 1,
    allowed: 'a URL such as http://api:9080 or https://api:9080',
    description: 'The internal listener of the control plane (`internal.listen` of `./sluice api`).',
  }),
  token: Type.Optional(
    Type.String({ ...serviceTokenOption, description: 'Token sent to the control plane; of several, the first. The same on both sides.' }),
  ),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Client certificate for the control plane (mutual TLS), as PEM.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  caFile: Type.Optional(
    Type.String({ minLength: 1, description: "Certificate authority of the control plane, as PEM, in place of the system's." }),
  ),
  grantSeconds: Type.Integer({
    default: 60,
    minimum: 0,
    maximum: 3_600,
    description:
      'Seconds for which a grant is cached while the stream of changes is open. A grant that a change ends is dropped at once; while the stream is broken a grant is used for 5 s at most.',
  }),
  grantsMax: Type.Integer({
    default: 100_000,
    minimum: 1,
    maximum: 10_000_000,
    description: 'Number of grants to cache, about 1 KB each.',
  }),
})
export type ControlOptions = Static<typeof controlOptions>

/** Faults that a schema cannot express. */
export function controlFaults({ url, certFile, keyFile, caFile }: ControlOptions): OptionFault[] {
  const faults: OptionFault[] = []
  const note = (place: string, problem: string): void => void faults.push({ place: `control.${place}`, problem })
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol) || parsed.search !== '' || parsed.hash !== '') {
    note('url', 'is not the address of an HTTP server: give a URL such as http://api:9080')
  } else if (parsed.username !== '' || parsed.password !== '') {
    note('url', 'holds a user or a password: give the token in SVC_CONTROL_TOKEN instead')
  } else if (parsed.protocol === 'http:' && [certFile, keyFile, caFile].some(file => file !== undefined)) {
    note('url', 'has no TLS, which certificates need: write https://, or leave control.cert_file, control.key_file and control.ca_file out')
  }
  if ((certFile === undefined) !== (keyFile === undefined)) {
    note('cert_file', 'a certificate needs its key, and a key its certificate: give both or none')
  }
  return faults
}
