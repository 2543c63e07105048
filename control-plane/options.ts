// The sections `users`, `tokens`, `audit` and `admin`, and the option `services`: who may register, how long tokens and audit lines last, the first
// administrator, and which routes a process serves.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../config/options/options.ts'
import type { Compatibility } from '../http/older-clients.ts'
import type { CertificatesOptions } from './certificates/options.ts'
import type { PoliciesOptions } from './policies/options.ts'
import type { ProvisionOptions } from './provisioning/options.ts'
import { credentialFaults } from './users/credentials.ts'

export const usersOptions = Type.Object({
  allowSelfRegister: Type.Boolean({
    default: true,
    description: 'Whether anyone may register; otherwise only an administrator creates users.',
  }),
  registrationsPerHour: Type.Integer({
    default: 60,
    minimum: 0,
    maximum: 1_000_000,
    description:
      'Users whom clients of one network (an IPv4 address, a /64 of IPv6) may register in an hour, and four times as many those of a /48 of IPv6; further requests get 429. Administrators are not limited. Behind a proxy that is not in `http.trusted_proxies` all clients are one network. 0 is no limit.',
  }),
  boundSelfRegistered: Type.Boolean({
    default: true,
    description:
      'Whether users who register themselves have bounds of what they own, change and publish, alone and together, as `docs/limits.md` lists them. An administrator lifts them with `PUT /users/<id>/bounded`; users whom an administrator creates have none, nor has anyone of an `up` on a loopback address without `http.trusted_proxies`.',
  }),
})

export const tokensOptions = Type.Object({
  lifetimeSeconds: Type.Integer({
    default: 36_000,
    minimum: 60,
    maximum: 31_536_000,
    description: 'Seconds until a token expires.',
  }),
})

export const auditOptions = Type.Object({
  retentionDays: Type.Integer({
    default: 365,
    minimum: 1,
    maximum: 36_500,
    description: 'Days for which the audit log is kept.',
  }),
})

export const adminOptions = Type.Object({
  email: Type.String({ default: 'admin@sluice.local', description: 'Email of the administrator that the first start creates.' }),
  password: Type.Optional(
    Type.String({
      minLength: 8,
      secret: true,
      description:
        "That administrator's password. Without one `up` generates it (`admin-password` in the data folder), and `api` creates none.",
    }),
  ),
})
export type AdminOptions = Static<typeof adminOptions>

/** The faults for which a registration would refuse these credentials. */
export function adminFaults({ email, password = 'not given: nothing to check' }: AdminOptions): OptionFault[] {
  return credentialFaults({ email, password }).map(({ pointer, detail }) => ({
    place: pointer.replace('/body/', 'admin.'),
    problem: detail,
  }))
}

export const services = ['core', 'provision', 'bootstrap', 'certs'] as const

export const servicesOption = Type.Array(Type.Enum([...services]), {
  default: [...services],
  minItems: 1,
  flag: '--services',
  description:
    'Whose routes are served: `provision` is `/mapping`, `bootstrap` `/things/configs` and `/things/bootstrap`, `certs` `/certs`, `core` all others.',
})

export interface ControlPlaneOptions {
  readonly users: Static<typeof usersOptions>
  readonly tokens: Static<typeof tokensOptions>
  readonly audit: Static<typeof auditOptions>
  readonly policies: PoliciesOptions | { readonly store: 'relational' }
  readonly certificates: CertificatesOptions
  readonly compatibility: Compatibility
  /** How devices are provisioned; by default as on a platform without a layout file. */
  readonly provisioning?: Pick<ProvisionOptions, 'layout' | 'credentials' | 'externalKeyBytesMin'>
  /** All of them by default. */
  readonly services?: readonly (typeof services)[number][]
}
