# SPDX-License-Identifier: BSD-3-Clause
"""Dumps of callgrind: what a piece of code costs, without some of what it calls."""
import re
from collections import defaultdict


class Call:
    def __init__(self, caller, caller_object, callee, callee_object, count, cost):
        self.caller, self.caller_object = caller, caller_object
        self.callee, self.callee_object = callee, callee_object
        self.count, self.cost = count, cost


class Profile:
    """One dump. `trigger`: the name that the program gave it."""

    def __init__(self, path):
        self.trigger = ""
        self.own = defaultdict(int)  # (object, function): instructions without those of its callees
        self.calls = []
        self._names = defaultdict(dict)
        self._read(path)

    def _name(self, kind, text):
        """Names are written once, as "(number) name", and then as "(number)"."""
        number, name = re.fullmatch(r"(\(\d+\))(?: (.*))?", text).groups()
        if name is not None:
            self._names[kind][number] = re.sub(r"'\d+$", "", name)
        return self._names[kind][number]

    def _read(self, path):
        obj = function = callee_object = callee = None
        count = None
        for line in path.read_text().splitlines():
            key, equals, value = line.partition("=")
            if line.startswith("desc: Trigger: Client Request: "):
                self.trigger = line.removeprefix("desc: Trigger: Client Request: ")
            elif equals and key == "ob":
                obj = self._name("ob", value)
            elif equals and key == "fn":
                function, callee_object = self._name("fn", value), None
            elif equals and key == "cob":
                callee_object = self._name("ob", value)
            elif equals and key == "cfn":
                callee = self._name("fn", value)
            elif equals and key == "calls":
                count = int(value.split()[0])
            elif re.match(r"[+\-*\d]", line):
                numbers = line.split()
                cost = int(numbers[1]) if len(numbers) > 1 else 0
                if count is None:
                    self.own[obj, function] += cost
                else:
                    self.calls.append(Call(function, obj, callee, callee_object or obj, count, cost))
                    count = callee_object = None

    def cost(self, excluded):
        """All that was collected, without the calls of what `excluded` is true for: (object, function)."""
        left_out = sum(call.cost for call in self.calls if excluded(call.callee_object, call.callee)
                       and not excluded(call.caller_object, call.caller))
        return sum(self.own.values()) - left_out

    def entries(self, matching):
        """How often functions that `matching` is true for were called from others."""
        counts = defaultdict(int)
        for call in self.calls:
            if matching(call.callee) and not matching(call.caller):
                counts[call.callee] += call.count
        return counts
